package natsqueue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
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

// TestQueuedWhileTasksLeave lists more tasks than the server lists at a time while tasks at the front of the list leave:
// those that stay must all be there, although each one that leaves moves them forward.
func TestQueuedWhileTasksLeave(t *testing.T) {
	t.Parallel()
	c, err := Embedded(t.TempDir(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const total, leaving = 103_000, 6_000
	tasks := queuetest.Tasks("corpus", "build", 1, total)
	slices.SortFunc(tasks, func(a, b queue.Task) int { return a.ID.Compare(b.ID) })
	publish(t, c, tasks...)
	left, listed := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(left)
		for _, task := range tasks[:leaving] {
			select {
			case <-listed:
				return
			default:
			}
			if err := c.purge(t.Context(), tasksStream, subjectOf(taskPrefix, &task)); err != nil {
				left <- err
				return
			}
		}
	}()
	got := queued(t, c, tasks[0].Of())
	close(listed)
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(got, tree.ID.Compare) {
		t.Error("the list is not sorted, so its pages were not joined as they should be")
	}
	missing := 0
	for _, task := range tasks[leaving:] {
		if _, found := slices.BinarySearchFunc(got, task.ID, tree.ID.Compare); !found {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d tasks that stayed are missing in the list", missing, total-leaving)
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
