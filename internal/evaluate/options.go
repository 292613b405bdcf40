package evaluate

import "github.com/aerie-rag/aerie/internal/retrieve"

// StandardArms returns the arms that show what packing, the tree, each mode and keywords are worth, with the leaves
// by similarity alone, which need no tree, first: the natural baseline. Alpha is 1 but in the hybrid arm, which has the default
// options of a query.
func StandardArms(corpus string) []Arm {
	arm := func(name string, o retrieve.Options) Arm {
		if o.Alpha == nil && (o.Mode == nil || *o.Mode != retrieve.Traversal) {
			o.Alpha = new(1.0)
		}
		return Arm{Name: name, Request: retrieve.Request{Corpus: corpus, Options: o}}
	}
	return []Arm{
		arm("leaf/similarity", retrieve.Options{MaxLevel: new(0), Pack: new(retrieve.Similarity)}),
		arm("leaf/coverage", retrieve.Options{MaxLevel: new(0)}),
		arm("collapsed/similarity", retrieve.Options{Pack: new(retrieve.Similarity)}),
		arm("collapsed/coverage", retrieve.Options{}),
		arm("boost 1.5", retrieve.Options{Boost: new(1.5)}),
		arm("filter level 1+", retrieve.Options{Mode: new(retrieve.Filter), MinLevel: new(1)}),
		arm("traversal", retrieve.Options{Mode: new(retrieve.Traversal)}),
		arm("hybrid 0.7", retrieve.Options{Alpha: new(0.7)}),
	}
}
