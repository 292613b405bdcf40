package mapreduce

// Batch is a run of items: From is the first, To the one after the last.
type Batch struct{ From, To int }

// Len returns the number of items.
func (b Batch) Len() int { return b.To - b.From }

// Pack cuts items of the given sizes, in order, into the fewest batches of which none is over the budget, and evens
// these out: a last batch of one small item would make a summary of next to nothing. An item that alone is over the
// budget is a batch by itself. No item is left out. Budgets below 1 count as 1.
func Pack(sizes []int, budget int) []Batch {
	if len(sizes) == 0 {
		return nil
	}
	least, total := 1, 0
	for _, s := range sizes {
		total += s
		if s <= budget {
			least = max(least, s)
		}
	}
	if total <= budget {
		return []Batch{{0, len(sizes)}}
	}
	want := len(fill(sizes, budget))
	low, high := least, max(budget, 1) // the smallest capacity that needs no more batches
	for low < high {
		mid := low + (high-low)/2
		if len(fill(sizes, mid)) <= want {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return fill(sizes, high)
}

// fill packs greedily.
func fill(sizes []int, capacity int) []Batch {
	var batches []Batch
	from, sum := 0, 0
	for i, s := range sizes {
		if i > from && sum+s > capacity {
			batches = append(batches, Batch{from, i})
			from, sum = i, 0
		}
		sum += s
	}
	return append(batches, Batch{from, len(sizes)})
}
