package fleet

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// ask makes the current process do what the event says, next.
func (n *node) ask(e Event) {
	n.mu.Lock()
	n.asked = append(n.asked, e)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *node) takeAsked() (Event, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) == 0 {
		return Event{}, false
	}
	e := n.asked[0]
	n.asked = n.asked[1:]
	return e, true
}

// load calls the generator, as was asked for or as it likes.
func (p *process) load() error {
	tick := min(1<<p.w.Layout.SequenceBits, 4096/(1+len(p.w.Nodes)/8)) // a tick's worth, or what is enough
	e, asked := p.takeAsked()
	switch {
	case asked && e.Kind == Burst:
		if p.w.intN(2) == 0 {
			return p.crowd(e.N + p.w.intN(min(2*tick, 60)))
		}
		return p.burst(e.N, 1+p.w.intN(min(2*tick, 200)))
	case asked && e.Kind == FillMany:
		return p.fill(1 + p.w.intN(e.N*tick))
	case asked && e.Kind == Saturate:
		for begun := time.Now(); time.Since(begun) < e.For; {
			if err := p.next(); err != nil || p.isDead() {
				return err
			}
		}
		return nil
	}
	if p.w.Calmed {
		return p.next()
	}
	switch p.w.intN(20) {
	case 8:
		return p.crowd(2 + p.w.intN(min(3*tick, 16)))
	case 0:
		return p.burst(2+p.w.intN(3), 1+p.w.intN(2*min(tick, 8)))
	case 1:
		return p.overtake()
	case 2, 3:
		return p.fill(1 + p.w.intN(min(3*tick, 100)))
	case 4, 5, 6, 7:
		return p.nextWithin(p.w.up(2 * max(50*ms, p.w.Layout.Unit)))
	}
	for range 1 + p.w.intN(5) {
		if err := p.next(); err != nil || p.isDead() {
			return err
		}
	}
	return nil
}

func (p *process) next() error {
	return p.call(call{what: "NextID", ids: 1, callers: 1}, func() ([]snowflake.ID, error) {
		id, err := p.gen.NextID()
		return one(id, err)
	})
}

func one(id snowflake.ID, err error) ([]snowflake.ID, error) {
	if err != nil {
		return nil, err
	}
	return []snowflake.ID{id}, nil
}

func (p *process) nextWithin(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d+1)
	defer cancel()
	return p.call(call{what: "NextIDContext", ids: 1, callers: 1, within: d + 1}, func() ([]snowflake.ID, error) {
		id, err := p.gen.NextIDContext(ctx)
		return one(id, err)
	})
}

func (p *process) fill(n int) error {
	return p.call(call{what: "Fill", ids: n, callers: 1}, func() ([]snowflake.ID, error) {
		ids := make([]snowflake.ID, n)
		n, err := p.gen.Fill(context.Background(), ids)
		return ids[:n], err
	})
}

// burst lets several callers take so many IDs each at once.
func (p *process) burst(callers, n int) error {
	return p.call(call{what: "NextID in a burst", ids: callers * n, callers: callers}, func() ([]snowflake.ID, error) {
		var mu sync.Mutex
		var ids []snowflake.ID
		var first error
		var wg sync.WaitGroup
		for range callers {
			begin := p.w.up(ms) // so that no two have the same deadlines
			wg.Go(func() {
				time.Sleep(begin)
				for range n {
					id, err := p.gen.NextID()
					mu.Lock()
					if err != nil {
						first = err
					} else {
						ids = append(ids, id)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		p.await(&wg, callers, func() {})
		slices.Sort(ids)
		return ids, first
	})
}

// overtake lets a second caller come while the first one reads the clock, with the
// lock. The second one waits until the first one has its ID.
func (p *process) overtake() error {
	var mu sync.Mutex
	var ids []snowflake.ID
	var first error
	next := func() {
		id, err := p.gen.NextID()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			first = err
		} else {
			ids = append(ids, id)
		}
	}
	var wg sync.WaitGroup
	second := func() {
		wg.Go(next)
		for range 3 { // it runs, as far as it can
			runtime.Gosched()
		}
	}
	if p.w.OneHost || p.Clock != "custom" {
		second = nil
	}
	return p.call(call{what: "NextID by two", ids: 2, callers: 2, overtaker: second}, func() ([]snowflake.ID, error) {
		wg.Go(next)
		wg.Wait()
		slices.Sort(ids)
		return ids, first
	})
}
