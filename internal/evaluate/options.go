package evaluate

import "github.com/aerie-rag/aerie/internal/retrieve"

// StandardArms returns the arms that show what packing, the tree, each mode and keywords are worth, with the leaves
// by similarity alone, which need no tree, first: the natural baseline. base holds the corpus and all other options; alpha
// is 1 but in the hybrid arm, which has the default options of a query.
func StandardArms(base retrieve.Request) []Arm {
	arm := func(name string, change func(*retrieve.Request)) Arm {
		req := base
		req.Alpha = 1
		change(&req)
		return Arm{Name: name, Request: req}
	}
	leaves, summaries := 0, 1
	return []Arm{
		arm("leaf/similarity", func(r *retrieve.Request) { r.MaxLevel, r.Pack = &leaves, retrieve.Similarity }),
		arm("leaf/coverage", func(r *retrieve.Request) { r.MaxLevel, r.Pack = &leaves, retrieve.Coverage }),
		arm("collapsed/similarity", func(r *retrieve.Request) { r.Pack = retrieve.Similarity }),
		arm("collapsed/coverage", func(r *retrieve.Request) { r.Pack = retrieve.Coverage }),
		arm("boost 1.5", func(r *retrieve.Request) { r.Mode, r.Boost = retrieve.Boost, 1.5 }),
		arm("filter level 1+", func(r *retrieve.Request) { r.Mode, r.MinLevel = retrieve.Filter, &summaries }),
		arm("traversal", func(r *retrieve.Request) { r.Mode = retrieve.Traversal }),
		arm("hybrid 0.7", func(r *retrieve.Request) { r.Pack, r.Alpha = retrieve.Coverage, 0.7 }),
	}
}
