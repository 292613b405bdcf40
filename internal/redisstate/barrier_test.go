//go:build stack

package redisstate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Any sequence of calls has the same results as on the barrier in memory, which keeps sets of positions.
func TestBarrierIsAsInMemory(t *testing.T) {
	s := sharedState(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		memory, b := leveltest.NewMemory(), s.Barrier()
		corpus := fmt.Sprint("c", run)
		level := rapid.Custom(func(r *rapid.T) tree.Level {
			return tree.Level{Corpus: corpus, Build: rapid.SampledFrom([]string{"b", "b2"}).Draw(r, "build"), Level: rapid.IntRange(1, 2).Draw(r, "level")}
		})
		digest := rapid.SampledFrom([]string{"x", "y"})
		marks := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) levels.Mark {
			return levels.Mark{
				Position: rapid.IntRange(-1, 18).Draw(r, "position"),
				Outcome:  rapid.SampledFrom([]levels.Outcome{levels.Done, levels.Done, levels.Dead, levels.Dead, "odd"}).Draw(r, "outcome"),
				Usage:    tree.Usage{Calls: rapid.IntRange(0, 3).Draw(r, "calls"), OutputTokens: rapid.IntRange(0, 1<<40).Draw(r, "tokens")},
			}
		}), 0, 5)
		same := func(what string, got, want any, gotErr, wantErr error) {
			if errors.Is(gotErr, levels.ErrNotOpen) != errors.Is(wantErr, levels.ErrNotOpen) || (gotErr == nil) != (wantErr == nil) {
				r.Fatalf("%s: error %v, want %v", what, gotErr, wantErr)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				r.Fatalf("%s (-want +got):\n%s", what, d)
			}
		}
		ctx := context.Background()
		r.Repeat(map[string]func(*rapid.T){
			"open": func(r *rapid.T) {
				l, d, total := level.Draw(r, "level"), digest.Draw(r, "digest"), rapid.IntRange(0, 17).Draw(r, "total")
				same("Open", nil, nil, b.Open(ctx, l, d, total), memory.Open(ctx, l, d, total))
			},
			"mark": func(r *rapid.T) {
				l, d, m := level.Draw(r, "level"), digest.Draw(r, "digest"), marks.Draw(r, "marks")
				got, gotErr := b.Mark(ctx, l, d, m...)
				want, wantErr := memory.Mark(ctx, l, d, m...)
				if errors.Is(wantErr, levels.ErrNotOpen) && gotErr != nil {
					gotErr = wantErr // a mark that can be in no plan may be refused before it is known that none is open
				}
				same("Mark", got, want, gotErr, wantErr)
			},
			"clear": func(r *rapid.T) {
				l, p := level.Draw(r, "level"), rapid.SliceOfN(rapid.IntRange(-1, 18), 0, 5).Draw(r, "positions")
				same("Clear", nil, nil, b.Clear(ctx, l, p), memory.Clear(ctx, l, p))
			},
			"drop": func(r *rapid.T) {
				build := rapid.SampledFrom([]string{"b", "b2"}).Draw(r, "build")
				same("Drop", nil, nil, b.Drop(ctx, corpus, build), memory.Drop(ctx, corpus, build))
			},
			"": func(r *rapid.T) {
				l := level.Draw(r, "level")
				got, gotErr := b.Count(ctx, l)
				want, wantErr := memory.Count(ctx, l)
				same("Count", got, want, gotErr, wantErr)
				for _, outcome := range []levels.Outcome{levels.Done, levels.Dead} {
					got, gotErr := b.Positions(ctx, l, outcome)
					want, wantErr := memory.Positions(ctx, l, outcome)
					same("Positions", got, want, gotErr, wantErr)
				}
			},
		})
	})
}

// Fifty goroutines in four processes mark every position, in different orders and more than once; the counts and the usage
// come out exact.
func TestMarksFromFiftyGoroutines(t *testing.T) {
	const goroutines, total = 50, 400
	var barriers []*Barrier
	for range 4 {
		barriers = append(barriers, sharedState(t).Barrier())
	}
	open(t, barriers[0], total)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			// Each position is marked done by five goroutines, and dead by two of the others; multiples of 8 only dead.
			for _, p := range random.Perm(total) {
				outcome := levels.Dead
				switch who := (p + g) % 10; {
				case who == 0 && p%8 != 0:
					outcome = levels.Done
				case who > 2:
					continue
				}
				if _, err := barriers[g%4].Mark(context.Background(), l1, "digest", levels.Mark{Position: p, Outcome: outcome, Usage: one}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	mark(t, barriers[1], levels.Count{Total: total, Done: total - total/8, Dead: total / 8, Usage: times(total - total/8)})
}

// Marks beyond the size of one call go in several.
func TestManyMarksAtOnce(t *testing.T) {
	b := sharedState(t).Barrier()
	const total = 3*marksPerCall + 17
	open(t, b, total)
	var marks []levels.Mark
	for p := range total {
		marks = append(marks, levels.Mark{Position: p, Outcome: levels.Dead})
	}
	mark(t, b, levels.Count{Total: total, Dead: total}, marks...)
	got, err := b.Positions(t.Context(), l1, levels.Dead)
	if err != nil || len(got) != total || !slices.IsSorted(got) || got[total-1] != total-1 {
		t.Errorf("%d positions, %v", len(got), err)
	}
	if err := b.Clear(t.Context(), l1, got[1:]); err != nil {
		t.Fatal(err)
	}
	mark(t, b, levels.Count{Total: total, Dead: 1})
	if _, err := b.Mark(t.Context(), l1, "digest", append(marks, levels.Mark{Position: total, Outcome: levels.Dead})...); err == nil {
		t.Error("a mark beyond the total, in the last of several calls, is no error")
	}
	mark(t, b, levels.Count{Total: total, Dead: 1})
}

// A barrier goes when nobody has marked anything for its time to live, and is kept alive by marks; records stay.
func TestBarriersLiveForTheirTime(t *testing.T) {
	s := connect(t, Config{URL: shared.url(), Prefix: t.Name(), BarrierTTL: time.Hour})
	b := s.Barrier()
	open(t, b, 3)
	lives := func(want time.Duration) {
		t.Helper()
		for _, key := range s.levelKeys(l1) {
			got, err := s.client.PTTL(t.Context(), key).Result()
			if err != nil || got > want || got < want-time.Minute {
				t.Errorf("%s lives for %v, %v; want %v", key, got, err, want)
			}
		}
	}
	lives(time.Hour)
	for _, key := range s.levelKeys(l1) {
		must(t, s.client.PExpire(t.Context(), key, 10*time.Minute).Err())
	}
	mark(t, b, levels.Count{Total: 3, Done: 1, Usage: times(1)}, done(0)...)
	lives(time.Hour)

	lease, err := s.Builds().Acquire(t.Context(), "c", levels.RightBuild, "a", time.Second, 0)
	must(t, err)
	must(t, s.Builds().Save(t.Context(), lease, &levels.State{}))
	must(t, s.Builds().Report(t.Context(), "c", levels.Progress{}))
	must(t, s.Builds().RequestStop(t.Context(), "c", "b", levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked}))
	must(t, s.Corpora().Update(t.Context(), "c", func(*levels.Corpus) error { return nil }))
	for _, key := range []string{s.corpusKey("c", "lease"), s.corpusKey("c", "build"), s.corpusKey("c", "reports"), s.corpusKey("c", "wishes"), s.sharedKey("corpora", "records")} {
		if got, err := s.client.PTTL(t.Context(), key).Result(); err != nil || got != -1 {
			t.Errorf("%s lives for %v, %v; want for ever", key, got, err)
		}
	}
}

func TestOnes(t *testing.T) {
	for bitmap, want := range map[string][]int{
		"": nil, "\x00": nil, "\x80": {0}, "\x01": {7}, "\x00\xa0\xff": {8, 10, 16, 17, 18, 19, 20, 21, 22, 23},
	} {
		if got := ones(bitmap); !slices.Equal(got, want) {
			t.Errorf("%x: %v, want %v", bitmap, got, want)
		}
	}
}

// BenchmarkMark is one task's mark, on one connection after another and from many goroutines.
func BenchmarkMark(b *testing.B) {
	for name, parallel := range map[string]int{"one": 0, "many": 16} {
		for _, total := range []int{1000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/of=%d", name, total), func(b *testing.B) {
				s, err := Connect(b.Context(), Config{URL: shared.url(), Prefix: fmt.Sprint(b.Name(), b.N)})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if err := s.Barrier().Open(b.Context(), l1, "digest", total); err != nil {
					b.Fatal(err)
				}
				one := func(p int) {
					if _, err := s.Barrier().Mark(b.Context(), l1, "digest", done(p%total)...); err != nil {
						b.Error(err)
					}
				}
				b.ResetTimer()
				if parallel == 0 {
					for p := range b.N {
						one(p)
					}
				} else {
					b.SetParallelism(parallel)
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							one(rand.IntN(total))
						}
					})
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "marks/s")
			})
		}
	}
}
