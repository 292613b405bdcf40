package natsqueue

import (
	"context"
	"slices"
	"time"
)

// scanTimeout bounds calls whose work grows with the number of tasks: listing 200,000 subjects takes 4 s.
const scanTimeout = time.Minute

// subjects returns the subjects of a stream that match, in ascending order.
func (c *Conn) subjects(ctx context.Context, stream, filter string) ([]string, error) {
	return joinPages(func(offset int) (subjectPage, error) {
		return c.subjectPage(ctx, stream, filter, offset)
	})
}

// joinPages reads a list that the server gives out 100,000 at a time, by their place in the sorted list of the
// moment. Subjects that leave the stream between two pages move the others forward, and the next page would miss as
// many. So each page begins a little before the end of the last one, and is accepted only if it overlaps it; else the scan
// steps back.
func joinPages(read func(offset int) (subjectPage, error)) ([]string, error) {
	var all []string
	offset, step := 0, pageOverlap
	for {
		page, err := read(offset)
		if err != nil {
			return nil, err
		}
		if offset > 0 && (len(page.subjects) == 0 || page.subjects[0] > all[len(all)-1]) {
			offset, step = max(0, offset-step), 2*step
			continue
		}
		all, step = mergeSorted(all, page.subjects), pageOverlap
		end := offset + len(page.subjects)
		if end >= page.total {
			return all, nil
		}
		offset = max(0, end-pageOverlap)
	}
}

// pageOverlap is how many subjects two pages share when nothing changes.
const pageOverlap = 1000

type subjectPage struct {
	subjects []string // ascending
	total    int      // of all pages, at this moment
}

func (c *Conn) subjectPage(ctx context.Context, stream, filter string, offset int) (subjectPage, error) {
	request := struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset,omitempty"`
	}{filter, offset}
	var answer struct {
		apiAnswer
		Total int `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := c.api(ctx, scanTimeout, "STREAM.INFO."+stream, request, &answer); err != nil {
		return subjectPage{}, err
	}
	page := subjectPage{subjects: make([]string, 0, len(answer.State.Subjects)), total: answer.Total}
	for subject := range answer.State.Subjects {
		page.subjects = append(page.subjects, subject)
	}
	slices.Sort(page.subjects)
	return page, nil
}

// mergeSorted adds to an ascending list the elements of another that it lacks. The two overlap a little at most.
func mergeSorted(all, more []string) []string {
	if len(all) == 0 || len(more) == 0 {
		return append(all, more...)
	}
	from, _ := slices.BinarySearch(all, more[0])
	merged := make([]string, 0, len(all)+len(more))
	merged = append(merged, all[:from]...)
	tail := all[from:]
	for len(tail) > 0 && len(more) > 0 {
		switch {
		case tail[0] < more[0]:
			merged, tail = append(merged, tail[0]), tail[1:]
		case tail[0] > more[0]:
			merged, more = append(merged, more[0]), more[1:]
		default:
			merged, tail, more = append(merged, tail[0]), tail[1:], more[1:]
		}
	}
	return append(append(merged, tail...), more...)
}
