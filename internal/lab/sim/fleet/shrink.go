//go:build go1.25

package fleet

import "slices"

// Shrink returns a smaller scenario that breaks the same promise, without the nodes, events and
// troubles that the failure does not need, and its result. run runs a scenario, and r is what it
// found in s.
func Shrink(s *Scenario, r *Result, run func(*Scenario) *Result) (*Scenario, *Result) {
	smallest, nodes := s, len(s.Nodes)
	// Nodes are left out first, because runs of fewer nodes are faster.
	kept := make([]int, nodes+len(s.Events)+len(s.Troubles))
	for i := range kept {
		kept[i] = i
	}
	for size := (nodes + 1) / 2; size > 0; {
		smaller := false
		for i := 0; i < len(kept); {
			fewer := slices.Delete(slices.Clone(kept), i, min(i+size, len(kept)))
			c := with(s, fewer)
			if found := run(c); found.Failure != nil && found.Failure.Promise == r.Failure.Promise {
				smallest, r, kept, smaller = c, found, fewer, true
			} else {
				i += size
			}
		}
		if !smaller || size > len(kept) {
			size /= 2
		}
	}
	return smallest, r
}

// with returns s with the given parts alone. Parts are numbered: nodes, then events, then troubles.
func with(s *Scenario, parts []int) *Scenario {
	c := *s
	c.Nodes, c.Events, c.Troubles = slices.Clone(s.Nodes), nil, nil
	for i := range c.Nodes {
		c.Nodes[i].Absent = c.Nodes[i].Absent || !slices.Contains(parts, i)
	}
	for i, e := range slices.Concat(s.Events, s.Troubles) {
		switch {
		case !slices.Contains(parts, len(s.Nodes)+i):
		case i < len(s.Events):
			c.Events = append(c.Events, e)
		default:
			c.Troubles = append(c.Troubles, e)
		}
	}
	return &c
}
