package audit

import (
	"iter"
	"slices"

	"github.com/seed-5394e6b1/snowflake"
)

// stretches keeps IDs in slices of a fixed length, so that growth copies no ID, and an ID takes no
// more than 16 bytes.
type stretches struct {
	n    int
	list [][]placed // each but the last is full and sorted
}

// full is the number of IDs in a full stretch, which takes 16 MiB.
const full = 1 << 20

func (s *stretches) add(p placed) {
	last := len(s.list) - 1
	switch {
	case last < 0:
		s.list = [][]placed{nil} // it grows: most tables are small
		last++
	case len(s.list[last]) == full:
		slices.SortFunc(s.list[last], comparePlaced)
		s.list = append(s.list, make([]placed, 0, full))
		last++
	}
	s.list[last] = append(s.list[last], p)
	s.n++
}

// all returns the IDs in any order.
func (s *stretches) all() iter.Seq[snowflake.ID] {
	return func(yield func(snowflake.ID) bool) {
		for _, stretch := range s.list {
			for _, p := range stretch {
				if !yield(p.id) {
					return
				}
			}
		}
	}
}

// sorted returns the IDs in increasing order, with equal IDs together. It sorts in place, so call
// it once, after the last add.
func (s *stretches) sorted() iter.Seq[[]placed] {
	return func(yield func([]placed) bool) {
		if s.n == 0 {
			return
		}
		slices.SortFunc(s.list[len(s.list)-1], comparePlaced)
		heads := slices.Clone(s.list) // a heap: no stretch begins before the one at half its index
		slices.SortFunc(heads, func(x, y []placed) int { return comparePlaced(x[0], y[0]) })
		var same []placed
		for len(heads) > 0 {
			p := heads[0][0]
			if len(same) > 0 && same[0].id != p.id {
				if !yield(same) {
					return
				}
				same = same[:0]
			}
			same = append(same, p)
			if heads[0] = heads[0][1:]; len(heads[0]) == 0 {
				last := len(heads) - 1
				heads[0], heads = heads[last], heads[:last]
			}
			sink(heads)
		}
		yield(same)
	}
}

// sink moves the first stretch down to its place in the heap.
func sink(heads [][]placed) {
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(heads) && comparePlaced(heads[child][0], heads[least][0]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		heads[i], heads[least] = heads[least], heads[i]
		i = least
	}
}
