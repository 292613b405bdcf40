package llm

import (
	"context"
	"fmt"
	"math"

	"github.com/aerie-rag/aerie/internal/word"
)

// LexicalWidth is the width of the vectors of [Lexical], unless another is asked for.
const LexicalWidth = 384

// LexicalName is the name of [Lexical]. It changes whenever the same text would get another vector.
const LexicalName = "lexical-1"

// Lexical is the embedder that is built in. It needs no model and no network, and it is honest about what it is: two
// texts are near each other when they share words, parts of words, or runs of characters. It knows no synonyms.
//
// A text becomes a sparse vector of hashed features: words and the character n-grams within them; in scripts without
// spaces, single characters, pairs and triples. A feature that occurs tf times weighs (1 + ln tf) times its class:
// function words of the larger languages next to nothing, short words less than long ones. That stands in for inverse
// document frequency, which can't be known when one text is embedded by itself. A sparse signed random projection (Li, Hastie, Church:
// Very sparse random projections, KDD 2006) whose places and signs are hashes of the feature brings it to [LexicalWidth]
// dimensions; no matrix is stored.
//
// The weights were chosen on 974 questions about a medical text, scored by whether the leaf that answers them is among the
// nearest: pairs of words and larger sets of n-grams add more noise to a vector of this width than they tell, and the
// true inverse document frequencies of the text would do only a little better than the classes.
//
// The zero value is ready. Vectors are unit length and a pure function of the text, on every machine.
type Lexical struct {
	// Width is that of the vectors; 0 means LexicalWidth, which the weights were chosen for. Another serves to
	// put summaries beside vectors of a model that isn't at hand.
	Width int
}

// Weights of the kinds of features, relative to a word.
const (
	gramWeight  = 0.9 // the character n-grams of a word, shared among them
	runeWeight  = 0.4 // one character of a script without spaces
	runesWeight = 1.0 // two of them
	threeWeight = 0.4 // three of them
	gramLength  = 4
)

// nonzeros is the number of dimensions that one feature touches.
const nonzeros = 16

// Name returns [LexicalName], with the width where that isn't LexicalWidth.
func (l Lexical) Name() string {
	if l.width() != LexicalWidth {
		return fmt.Sprintf("%s/%d", LexicalName, l.width())
	}
	return LexicalName
}

func (l Lexical) width() int {
	if l.Width == 0 {
		return LexicalWidth
	}
	return l.Width
}

// Embed returns a vector for each passage. A text without any letter or digit gets a vector of its characters; one of
// white space only gets one too, the same for all of them, since a vector must not be zero.
func (l Lexical) Embed(ctx context.Context, passages []string) ([][]float32, error) {
	sketch := newSketch(l.width())
	out := make([][]float32, len(passages))
	for i, p := range passages {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out[i] = sketch.embed(p)
	}
	return out, nil
}

// EmbedQuery returns the vector of a query.
func (l Lexical) EmbedQuery(_ context.Context, query string) ([]float32, error) {
	return newSketch(l.width()).embed(query), nil
}

// sketch is the working memory of Lexical.
type sketch struct {
	slots []feature // open addressing, a power of two
	used  []int32   // slots in use, in order of first occurrence, which fixes the order of the float sums
	buf   []byte
	acc   []float64 // as wide as the vectors
}

// feature is a hashed feature of the text at hand.
type feature struct {
	hash   uint64
	count  int32
	weight float32
}

func newSketch(width int) *sketch {
	return &sketch{slots: make([]feature, 1024), acc: make([]float64, width)}
}

func (s *sketch) embed(text string) []float32 {
	s.reset()
	s.features(text)
	if len(s.used) == 0 {
		for _, r := range text {
			s.add(hashRune(seedRune, r), 1)
		}
	}
	if len(s.used) == 0 {
		s.add(mix(seedWord), 1)
	}
	return s.project()
}

func (s *sketch) reset() {
	for _, i := range s.used {
		s.slots[i] = feature{}
	}
	s.used = s.used[:0]
}

func (s *sketch) features(text string) {
	s.buf = word.EachTerm(text, s.buf, func(t word.Term) {
		if t.Kind == word.Wide {
			s.wide(t.Text)
			return
		}
		weight := t.Weight()
		s.add(hashBytes(seedWord, t.Text), weight)
		if t.Kind == word.Word && t.Runes >= gramLength-1 && weight > word.FunctionWeight {
			s.grams(t, weight)
		}
	})
}

// grams adds the character n-grams of a word with its ends marked, so that "cancers" is near "cancer".
func (s *sketch) grams(t word.Term, weight float64) {
	const edge = '\x01'
	var window [gramLength]rune
	n := t.Runes + 2 - gramLength + 1 // with the two ends
	w := weight * gramWeight * 2 / math.Sqrt(float64(n))
	seen := 1
	window[gramLength-1] = edge
	push := func(r rune) {
		copy(window[:], window[1:])
		window[gramLength-1] = r
		if seen++; seen >= gramLength {
			h := seedGram
			for _, r := range window {
				h = hashRune(h, r)
			}
			s.add(h, w)
		}
	}
	for _, r := range string(t.Text) {
		push(r)
	}
	push(edge)
}

func (s *sketch) wide(text []byte) {
	var p, pp rune
	for _, r := range string(text) {
		s.add(hashRune(seedRune, r), runeWeight)
		if p != 0 {
			s.add(hashRune(hashRune(seedRune, p), r), runesWeight)
		}
		if pp != 0 {
			s.add(hashRune(hashRune(hashRune(seedRune, pp), p), r), threeWeight)
		}
		pp, p = p, r
	}
}

func (s *sketch) add(hash uint64, weight float64) {
	if len(s.used)*2 >= len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		f := &s.slots[i]
		if f.count == 0 {
			*f = feature{hash: hash, count: 1, weight: float32(weight)}
			s.used = append(s.used, int32(i))
			return
		}
		if f.hash == hash {
			f.count++
			return
		}
	}
}

func (s *sketch) grow() {
	old, used := s.slots, s.used
	s.slots = make([]feature, 2*len(old))
	s.used = make([]int32, 0, len(old))
	mask := uint64(len(s.slots) - 1)
	for _, u := range used {
		i := old[u].hash & mask
		for s.slots[i].count != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = old[u]
		s.used = append(s.used, int32(i))
	}
}

// project sums the features' sparse random signs and brings the sum to unit length.
func (s *sketch) project() []float32 {
	clear(s.acc)
	for _, i := range s.used {
		f := s.slots[i]
		w := float64(f.weight) * tfWeight(f.count)
		h := f.hash
		for range nonzeros / 2 {
			h = mix(h + 0x9e3779b97f4a7c15)
			s.touch(uint32(h), w)
			s.touch(uint32(h>>32), w)
		}
	}
	var norm float64
	for _, v := range s.acc {
		norm += float64(v * v) // the conversion keeps compilers from fusing, which would differ by machine
	}
	out := make([]float32, len(s.acc))
	if norm == 0 { // signs that cancel out, one text in 2^many
		out[0] = 1
		return out
	}
	norm = 1 / math.Sqrt(norm)
	for i, v := range s.acc {
		out[i] = float32(v * norm)
	}
	return out
}

func (s *sketch) touch(bits uint32, w float64) {
	at := uint64(bits>>1) * uint64(len(s.acc)) >> 31
	if bits&1 == 0 {
		w = -w
	}
	s.acc[at] += w
}

// tfWeight is 1 + ln(tf). The first values are looked up: the logarithm is the larger part of the cost otherwise.
func tfWeight(tf int32) float64 {
	if tf <= int32(len(lowTF)) {
		return lowTF[tf-1]
	}
	return 1 + math.Log(float64(tf))
}

var lowTF = [...]float64{1, 1.6931471805599454, 2.09861228866811, 2.386294361119891, 2.6094379124341005, 2.791759469228055}

// Seeds keep the kinds of features apart.
const (
	seedWord uint64 = 0x9ae16a3b2f90404f
	seedGram uint64 = 0xc3a5c85c97cb3127
	seedRune uint64 = 0xb492b66fbe98f273
)

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func hashRune(h uint64, r rune) uint64 { return mix(h ^ uint64(r)*0x9e3779b97f4a7c15) }

// hashBytes is FNV-1a over eight bytes at a time, finished by mix.
func hashBytes(h uint64, s []byte) uint64 {
	for len(s) >= 8 {
		v := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = mix((h ^ v) * 0x100000001b3)
		s = s[8:]
	}
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h ^ uint64(len(s)))
}

var _ Embedder = Lexical{}
