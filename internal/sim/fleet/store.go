package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

var (
	errRefused = errors.New("the store refuses connections")
	errReset   = errors.New("connection reset")
	errDead    = errors.New("the process is dead")
)

// store is a server that all nodes reach over a simulated network. It keeps the promises of lease.Store;
// everything else may go wrong.
type store struct {
	w       *world
	machine *machine

	mu      sync.Mutex
	records map[int]lease.Record
	taken   map[int]taking
	history map[int][]lease.Holding
	holders map[string][]*process // by token
	down    int                   // so many faults say so
	wiped   int
	faultAt time.Time // when one began or ended last
	lie     int
	lied    bool // ever
}

// taking is how a worker ID came to its holder.
type taking struct {
	by     *process
	bounds []time.Time // before them all is closed to the holder
	saver  *process    // of the last save: by, or a clone
}

func newStore(w *world) *store {
	s := &store{w: w, machine: newMachine(w.Start, w.begun, 0, 0), records: map[int]lease.Record{}, taken: map[int]taking{},
		history: map[int][]lease.Holding{}, holders: map[string][]*process{}}
	if w.OneHost {
		s.machine = w.nodes[0].machine
	}
	return s
}

// fault lets the store misbehave for a while.
func (s *store) fault(e Event) {
	change := func(sign int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faultAt = time.Now()
		switch e.Kind {
		case StoreDown:
			s.down += sign
		case StoreWiped:
			s.wiped += sign
		default:
			s.lie += sign * e.N
			s.lied = true
		}
	}
	change(1)
	s.w.sleep(e.For)
	change(-1)
}

func (s *store) recover() {
	s.machine.right(0)
}

func (s *store) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down > 0 && !s.w.isOver()
}

// load adds to snap the records that it is about, one half of them at a time.
func (s *store) load(snap *lease.Snapshot, half int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, worker := range slices.Sorted(maps.Keys(s.records)) { // in no order chance would be
		r := s.records[worker]
		if worker%2 != half {
			continue
		}
		if s.lie > 0 && r.State == lease.Held && !s.w.isOver() && s.w.intN(100) < s.lie {
			r.Renewed = time.Time{}
		}
		r.Bounds = slices.Clone(r.Bounds) // or who loads it could change what is stored
		snap.Records = append(snap.Records, r)
	}
	snap.Now, snap.OwnClock = s.machine.Wall(), s.w.OwnClock
}

// save is atomic. ended is nil if it is a plain save.
func (s *store) save(p *process, r lease.Record, ended *lease.Holding, forget time.Time) (lease.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.records[r.Worker]
	if old.Version != r.Version-1 {
		return r, fmt.Errorf("%w: version %d, not %d", lease.ErrConflict, old.Version, r.Version-1)
	}
	r.Renewed = s.machine.Wall()
	s.checkSave(p, old, r)
	s.checkHistory(p, old, r, ended, forget)
	s.records[r.Worker] = r
	if old.Token != r.Token {
		p.took[r.Worker]++
		s.taken[r.Worker] = taking{by: p, bounds: old.Bounds}
	}
	t := s.taken[r.Worker]
	t.saver = p
	s.taken[r.Worker] = t
	s.keep(p, r, ended, forget)
	s.w.logf("store: v%d of %v, clock sequence %d, by %v", r.Version, r, r.ClockSeq, p)
	return r, nil
}

// client is a process's way to the store.
type client struct{ p *process }

// answer is what comes back.
type answer struct {
	snap   lease.Snapshot
	record lease.Record
	kept   []lease.Holding
	err    error
}

// Load asks for the records.
func (c client) Load(ctx context.Context) (lease.Snapshot, error) {
	a := c.call(ctx, "load", func(s *store) answer {
		var a answer
		s.load(&a.snap, 0)
		time.Sleep(c.p.w.up(c.p.w.Network))
		s.load(&a.snap, 1)
		return a
	})
	return a.snap, a.err
}

// LoadWorker asks for the record of one worker ID.
func (c client) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	a := c.call(ctx, fmt.Sprintf("load worker %d", worker), func(s *store) answer {
		var a answer
		s.load(&a.snap, worker%2)
		a.snap.Records = slices.DeleteFunc(a.snap.Records, func(r lease.Record) bool { return r.Worker != worker })
		return a
	})
	return a.snap, a.err
}

// Save asks for a save.
func (c client) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	r.Bounds = append([]time.Time(nil), r.Bounds...)
	c.p.checkLeap(r)
	a := c.call(ctx, fmt.Sprintf("save v%d of worker %d", r.Version, r.Worker), func(s *store) answer {
		saved, err := s.save(c.p, r, nil, time.Time{})
		return answer{record: saved, err: err}
	})
	if a.err != nil {
		return r, a.err
	}
	return a.record, nil
}

// call sends a request over the network of the node, as that is now, and waits
// for its answer for as long as the context says.
func (c client) call(ctx context.Context, what string, serve func(*store) answer) answer {
	p, w := c.p, c.p.w
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	p.gate()
	p.crashHere(0)
	net := p.node.network()
	there, back := w.up(w.Network)+w.up(net.delay), w.up(w.Network)+w.up(net.delay)
	lost, unanswered, twice := w.chance(net.loseRequests), w.chance(net.loseAnswers), w.chance(net.resend)
	again := w.up(w.Window)
	answers := make(chan answer, 2)
	reply := func(a answer) {
		w.wg.Go(func() {
			if w.sleep(back) {
				answers <- a
			}
		})
	}
	arrive := func(after time.Duration, answered bool) {
		w.wg.Go(func() {
			if !w.sleep(after) {
				return
			}
			if w.store.isDown() {
				if answered && (there+back)%2 == 0 {
					reply(answer{err: errRefused})
				}
				return
			}
			if w.store.isWiped() {
				if answered {
					reply(answer{err: lease.ErrWiped})
				}
				return
			}
			a := serve(w.store)
			p.crashAt(3)
			if answered && !unanswered {
				reply(a)
			}
		})
	}
	if !lost {
		arrive(there, true)
	}
	if twice {
		arrive(there+again, lost)
	}
	if (lost || unanswered) && (there+back)%3 == 0 {
		w.wg.Go(func() {
			if w.sleep(there + back) {
				answers <- answer{err: errReset}
			}
		})
	}
	p.crashHere(1)
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	case <-w.done:
		a.err = errDead
	}
	p.gate()
	p.crashHere(2)
	if p.isDead() {
		runtime.Goexit() // a dead process does nothing more
	}
	if a.err != nil {
		w.logf("%v: %s: %v", p, what, a.err)
	}
	return a
}
