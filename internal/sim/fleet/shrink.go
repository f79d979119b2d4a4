package fleet

import "slices"

// Shrink returns a smaller scenario that fails in the same way. run runs one.
func Shrink(s *Scenario, promise string, run func(*Scenario) *Result) *Scenario {
	fails := func(c *Scenario) bool {
		f := run(c).Failure
		return f != nil && f.Promise == promise
	}
	for size := (len(s.Events) + 1) / 2; size > 0; {
		smaller := false
		for i := 0; i < len(s.Events); {
			c := *s
			c.Events = slices.Delete(slices.Clone(s.Events), i, min(i+size, len(s.Events)))
			if fails(&c) {
				s, smaller = &c, true
			} else {
				i += size
			}
		}
		if !smaller || size > len(s.Events) {
			size /= 2
		}
	}
	for i := range s.Nodes {
		c := *s
		c.Nodes = slices.Clone(s.Nodes)
		c.Nodes[i].Absent = true
		if fails(&c) {
			s = &c
		}
	}
	for i := range s.Nodes {
		for _, simpler := range []func(*Node){
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
