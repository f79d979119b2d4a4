package fleet

import "slices"

// Shrink returns a smaller scenario that fails in the same way. run runs one.
func Shrink(s *Scenario, promise string, run func(*Scenario) *Result) *Scenario {
	fails := func(c *Scenario) bool {
		f := run(c).Failure
		return f != nil && f.Promise == promise
	}
	s = drop(s, len(s.Nodes), withNodes, fails) // first, because fewer nodes take less time
	s = drop(s, len(s.Events), withEvents, fails)
	for i := range s.Nodes {
		for _, simpler := range []func(*Node){
			func(n *Node) { n.Absent = true },
			func(n *Node) { n.Random = false },
			func(n *Node) { n.Borrow = 0 },
			func(n *Node) { n.Offset = 0 },
			func(n *Node) { n.Gap = 10 * n.Gap },
		} {
			c := *s
			c.Nodes = slices.Clone(s.Nodes)
			simpler(&c.Nodes[i])
			if !s.Nodes[i].Absent && fails(&c) {
				s = &c
			}
		}
	}
	return s
}

// drop returns s with as few of n parts as fail. with returns s with some of its
// parts.
func drop(s *Scenario, n int, with func(s *Scenario, parts []int) *Scenario, fails func(*Scenario) bool) *Scenario {
	kept := make([]int, n)
	for i := range kept {
		kept[i] = i
	}
	smallest := s
	for size := (n + 1) / 2; size > 0; {
		smaller := false
		for i := 0; i < len(kept); {
			fewer := slices.Delete(slices.Clone(kept), i, min(i+size, len(kept)))
			if c := with(s, fewer); fails(c) {
				smallest, kept, smaller = c, fewer, true
			} else {
				i += size
			}
		}
		if !smaller || size > len(kept) {
			size /= 2
		}
	}
	return smallest
}

func withNodes(s *Scenario, parts []int) *Scenario {
	c := *s
	c.Nodes = slices.Clone(s.Nodes)
	for i := range c.Nodes {
		c.Nodes[i].Absent = !slices.Contains(parts, i)
	}
	return &c
}

func withEvents(s *Scenario, parts []int) *Scenario {
	c := *s
	c.Events = nil
	for _, i := range parts {
		c.Events = append(c.Events, s.Events[i])
	}
	return &c
}
