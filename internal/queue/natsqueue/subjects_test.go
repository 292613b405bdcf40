package natsqueue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// TestMergeSorted compares with the definition: the sorted union.
func TestMergeSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.Map(rapid.SliceOfDistinct(rapid.StringMatching(`[a-d]{1,3}`), rapid.ID), func(s []string) []string {
			slices.Sort(s)
			return s
		})
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		want := slices.Concat(a, b)
		slices.Sort(want)
		want = slices.Compact(want)
		if diff := cmp.Diff(want, mergeSorted(slices.Clone(a), slices.Clone(b)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("merge of %v and %v (-want +got):\n%s", a, b, diff)
		}
	})
}

// TestServerPages: what joinPages relies on. A page begins at a place in the sorted list of all subjects that match.
func TestServerPages(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	tasks := queuetest.Tasks("corpus", "build", 1, 20)
	publish(t, c, tasks...)
	publish(t, c, queuetest.Tasks("corpus", "build", 2, 20)...)
	var sorted []string
	for i := range tasks {
		sorted = append(sorted, subjectOf(taskPrefix, &tasks[i]))
	}
	slices.Sort(sorted)
	for _, offset := range []int{0, 1, 7, 19, 20, 21} {
		page, err := c.subjectPage(t.Context(), tasksStream, levelSubject(taskPrefix, tasks[0].Of())+"*", offset)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sorted[min(offset, 20):], page.subjects, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("page at %d (-want +got):\n%s", offset, diff)
		}
		if page.total != 20 {
			t.Errorf("page at %d: %d in all, want 20", offset, page.total)
		}
	}
}

// TestPagesOverlap lets the front of the list leave between two pages.
func TestPagesOverlap(t *testing.T) {
	all := make([]string, 0, 5000)
	for i := range 5000 {
		all = append(all, fmt.Sprintf("s%05d", i))
	}
	for _, leave := range []int{0, 1, pageOverlap - 1, pageOverlap, pageOverlap + 1, 2500, 4999, 5000} {
		calls := 0
		got, err := joinPages(func(offset int) (subjectPage, error) {
			now := all
			if calls++; calls > 1 {
				now = all[leave:]
			}
			from := min(offset, len(now))
			return subjectPage{subjects: now[from:min(from+2000, len(now))], total: len(now)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range all[leave:] {
			if _, found := slices.BinarySearch(got, subject); !found {
				t.Fatalf("%d leave: %s stayed and is missing", leave, subject)
			}
		}
		if !slices.IsSorted(got) {
			t.Errorf("%d leave: the list is not sorted", leave)
		}
	}
}
