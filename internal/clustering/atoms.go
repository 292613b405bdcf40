package clustering

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

// atom is what clustering moves about in one piece: a row and its copies, or a part of the copies when all of them would
// be over the cap.
type atom struct {
	rows   []int32 // ascending; equal vectors
	tokens int
	// alone says that the atom is a cluster by itself from the start: a row over the cap, or a part of many copies.
	alone bool
}

// maxTokens bounds a row's tokens, so that sums can't overflow.
const maxTokens = 1 << 30

// scales checks every row and returns the reciprocal norms. The error names the first bad row.
func scales(ctx context.Context, workers int, in Input) ([]float64, error) {
	if in.N < 0 || in.D < 1 || len(in.X) != in.N*in.D {
		return nil, fmt.Errorf("clustering: %d numbers are not %d rows of %d", len(in.X), in.N, in.D)
	}
	if len(in.Tokens) != in.N {
		return nil, fmt.Errorf("clustering: %d token counts for %d rows", len(in.Tokens), in.N)
	}
	out := make([]float64, in.N)
	var mu sync.Mutex
	var first *RowError
	err := parallel.Ranges(ctx, workers, in.N, 256, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			fault := ""
			norm := kernel.Norm(in.X[i*in.D : (i+1)*in.D])
			switch {
			case math.IsNaN(norm) || math.IsInf(norm, 0):
				fault = "not finite"
			case norm == 0:
				fault = "all zero"
			case in.Tokens[i] < 0 || in.Tokens[i] > maxTokens:
				fault = fmt.Sprintf("given %d tokens", in.Tokens[i])
			default:
				out[i] = 1 / norm
				continue
			}
			mu.Lock()
			if first == nil || i < first.Row {
				first = &RowError{Row: i, Fault: fault}
			}
			mu.Unlock()
			return
		}
	})
	if err != nil {
		return nil, err
	}
	if first != nil {
		return nil, first
	}
	return out, nil
}

// copies groups rows with equal vectors: one ascending list for each distinct vector, in order of their first rows.
func copies(ctx context.Context, workers int, in Input) ([][]int32, error) {
	hash := make([]uint64, in.N)
	err := parallel.Ranges(ctx, workers, in.N, 256, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			var h uint64
			for _, v := range in.X[i*in.D : (i+1)*in.D] {
				// + 0 turns -0 into 0, since the two compare equal.
				h = (h ^ uint64(math.Float32bits(v+0))) * 0x9e3779b97f4a7c15
				h ^= h >> 29
			}
			hash[i] = random.Mix(h)
		}
	})
	if err != nil {
		return nil, err
	}
	first := firsts(in, hash)
	groups := make([][]int32, 0, in.N)
	place := make([]int32, in.N) // of a first row's group
	single := make([]int32, in.N)
	for i, f := range first {
		if int(f) < i {
			groups[place[f]] = append(groups[place[f]], int32(i))
			continue
		}
		place[i] = int32(len(groups))
		single[i] = int32(i)
		groups = append(groups, single[i:i+1:i+1])
	}
	return groups, nil
}

// firsts returns, for each row, the first row with the same vector.
func firsts(in Input, hash []uint64) []int32 {
	order, first := make([]int32, in.N), make([]int32, in.N)
	for i := range order {
		order[i], first[i] = int32(i), int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(hash[a], hash[b]), cmp.Compare(a, b)) })
	for lo := 0; lo < in.N; {
		hi := lo + 1
		for hi < in.N && hash[order[hi]] == hash[order[lo]] {
			hi++
		}
		// Rows with one hash are nearly always equal, but must not have to be.
		for i := lo + 1; i < hi; i++ {
			for j := lo; j < i; j++ {
				if first[order[j]] == order[j] && equal(in, int(order[j]), int(order[i])) {
					first[order[i]] = order[j]
					break
				}
			}
		}
		lo = hi
	}
	return first
}

func equal(in Input, a, b int) bool {
	y := in.X[b*in.D : (b+1)*in.D]
	for t, v := range in.X[a*in.D : (a+1)*in.D] {
		if v != y[t] {
			return false
		}
	}
	return true
}

// atoms cuts the groups of copies where they are over the cap, and where there is only one group, into least parts.
func atoms(in Input, groups [][]int32, limit, least int) []atom {
	out := make([]atom, 0, len(groups))
	for _, rows := range groups {
		tokens := 0
		for _, r := range rows {
			tokens += in.Tokens[r]
		}
		switch {
		case len(groups) == 1:
			for _, part := range cut(rows, func(i int) int { return in.Tokens[rows[i]] }, limit, least) {
				out = append(out, wholeAtom(in, part))
			}
		case tokens <= limit:
			out = append(out, atom{rows: rows, tokens: tokens})
		default:
			for _, part := range cut(rows, func(i int) int { return in.Tokens[rows[i]] }, limit, 1) {
				out = append(out, wholeAtom(in, part))
			}
		}
	}
	return out
}

// wholeAtom returns rows as an atom that no other joins.
func wholeAtom(in Input, rows []int32) atom {
	a := atom{rows: rows, alone: true}
	for _, r := range rows {
		a.tokens += in.Tokens[r]
	}
	return a
}

// cut splits a list into consecutive parts of about equal tokens, none over limit unless it is a single element, at least
// `least` of them while there are as many elements. It is the split that needs no vectors.
func cut[T any](list []T, tokens func(i int) int, limit, least int) [][]T {
	total := 0
	for i := range list {
		total += tokens(i)
	}
	parts := min(max(least, quotient(total, limit), 1), len(list))
	var out [][]T
	lo, sum, before := 0, 0, 0
	for i := range list {
		t := tokens(i)
		// A part ends at its share of the tokens, at the cap, or when every element left is needed for a part of its own.
		share := float64(total) * float64(len(out)+1) / float64(parts)
		full := float64(before)+float64(t)/2 > share
		scarce := len(out)+1 < parts && len(list)-i <= parts-len(out)-1
		if i > lo && (sum+t > limit || full && len(out)+1 < parts || scarce) {
			out = append(out, list[lo:i:i])
			lo, sum = i, 0
		}
		sum += t
		before += t
	}
	return append(out, list[lo:len(list):len(list)])
}
