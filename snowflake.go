package snowflake

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Generator issues IDs. Its methods may be called by any number of goroutines.
type Generator struct {
	generator
	// No other generator shares a cache line with this one.
	_ [128 - unsafe.Sizeof(generator{})%128]byte
}

// In an open tick, NextID needs only the first cache line of a generator.
type generator struct {
	word
	vmGeneration *atomic.Uint64 // a number that changes if the machine is cloned; nil if clones are not reported
	born         atomic.Uint64  // machine before the lease asked for the worker ID, or earlier

	seq  sequence
	wall wall       // the clock, if it is a built-in one
	mu   sync.Mutex // guards all fields that change; the word, with lock and unlock

	counted *Stats  // the counters except Issued; nil before the first count
	window  *window // nil without a lease

	borrow time.Duration
	clock  Clock // nil if the clock is wall
	policy BackwardPolicy
}

// New returns the Generator of this process for a worker ID. While it is in use, no other process
// may use the same worker ID, datacenter and layout. The package doc has the HAZARD of a restart.
//
// If Options.Clock is nil, a process has one such Generator for good: New returns it again, even if
// the program has dropped it. If Options.After is ahead, New moves it forward; calls that already
// wait may still return lower IDs. If another option differs, or a layout divides the same bits
// differently, the error matches [ErrInUse]. Policies are compared with ==, and two BackwardFuncs
// count as different: set OnBackward to a pointer to one.
//
// HAZARD: Generators with the same worker issue the same IDs if New and NewLeased made them, if
// Options.Clock is set, or if their layouts have another epoch, unit or number of bits below the
// time. So do not derive the epoch from the time of the start.
func New(worker int, opts *Options) (*Generator, error) {
	o, err := opts.complete(worker, nil)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		return ofProcess(worker, &o)
	}
	return newGenerator(worker, nil, &o)
}

// NewLeased returns a Generator that stamps only what l grants. If the granted span has not begun,
// the clock counts as having gone back. Errors are those of New, or the lease's. After an error,
// the lease must still be released.
//
// A lease of package lease has a layout and a clock: Options.Layout need not be set, and must be
// the same; Options.Clock replaces the clock for the Generator alone. A Lease that you write sets
// such defaults with methods Layout() Layout and Clock() Clock.
//
// HAZARD: a lease serves one Generator: two would issue the same IDs. The leases of package lease
// refuse the second.
func NewLeased(l Lease, opts *Options) (*Generator, error) {
	if v := reflect.ValueOf(l); l == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the lease is nil", ErrInvalidOptions)
	}
	worker := l.Grant().Worker
	o, err := opts.complete(worker, l)
	if err != nil {
		return nil, err
	}
	return newGenerator(worker, l, &o)
}

// newGenerator returns a Generator with complete options.
func newGenerator(worker int, lease Lease, o *Options) (*Generator, error) {
	l := o.Layout
	g := &Generator{generator: generator{
		seq:    newSequence(l, o.Datacenter, worker),
		clock:  o.Clock,
		policy: o.OnBackward,
		borrow: o.BorrowAhead,
	}}
	g.until.Store(noTick)
	g.seq.random = o.RandomStart
	if b, ok := o.Clock.(*builtinClock); ok {
		g.clock, g.wall = nil, b.wallOf(lease != nil)
	}
	now, err := g.refresh()
	if err != nil {
		return nil, err
	}
	if err := o.checkAfter(now); err != nil {
		return nil, err
	}
	o.warnOfOldAfter(now)
	if l.ClockSeqBits > 0 && lease == nil || o.RewindTicks > 0 {
		g.seq.trail = newTrail(l, o.RewindTicks)
	}
	if o.After > 0 {
		g.seq.resume(o.After)
	}
	if lease != nil {
		if err := g.lease(lease); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// NextID returns a new ID. If the tick's sequence is spent, it waits for a tick that has IDs left.
// If the clock has gone back, it does what the policy says. The package doc bounds these waits.
//
// A call that returns an error has changed nothing: the next call gets the ID that this one waited
// for, unless a greater one was returned in between.
func (g *Generator) NextID() (ID, error) {
	if g == nil {
		return 0, errNotMade
	}
	// This is inTick for one ID, written out because a call would slow down the hot path.
	if s := g.sight(); s.word != sealed {
		if g.inTime() {
			if !g.claim(s, g.seq.after(s.word)) {
				yield()
				return g.NextIDContext(context.Background())
			}
			if g.confirm(s, 1) {
				return s.id(), nil
			}
		}
	}
	r, err := g.obtain(context.Background(), 1)
	return r.first, g.refuse(err)
}

// NextIDContext is NextID with a wait that ctx bounds. If ctx is done before the call's tick
// begins, it returns ctx's error; if the tick begins after ctx's deadline, at once an error that
// matches [context.DeadlineExceeded].
func (g *Generator) NextIDContext(ctx context.Context) (ID, error) {
	if g == nil {
		return 0, errNotMade
	}
	if err := ctx.Err(); err != nil {
		return 0, g.refuse(err)
	}
	if r := g.inTick(1); r.n > 0 {
		return r.first, nil
	}
	r, err := g.obtain(ctx, 1)
	return r.first, g.refuse(err)
}

// Fill fills dst with new IDs in increasing order, whatever the policy. Between ticks it waits as
// NextIDContext does. After an error, dst[:n] holds IDs to be used. If dst is empty, Fill returns 0
// and ctx's error.
func (g *Generator) Fill(ctx context.Context, dst []ID) (n int, err error) {
	if g == nil || g.seq.layout == (Layout{}) {
		return 0, errNotMade
	}
	for {
		born := g.generation()
		n, err = g.fill(ctx, dst)
		if n == 0 || born == g.generation() {
			return n, g.refuse(err)
		}
		g.disown(n) // the machine was cloned during the call, and another copy may return the same IDs
	}
}

func (g *Generator) fill(ctx context.Context, dst []ID) (n int, err error) {
	ordered, stride := true, g.seq.stride()
	for err = ctx.Err(); n < len(dst) && err == nil; {
		r := g.inTick(int64(len(dst) - n))
		if r.n == 0 {
			r, err = g.obtain(ctx, len(dst)-n)
		}
		if r.n > 0 && n > 0 && r.first < dst[n-1] {
			ordered = false
		}
		part := dst[n : n+int(r.n)]
		for i, id := 0, r.first; i < len(part); i, id = i+1, id+stride {
			part[i] = id
		}
		n += len(part)
		if err == nil && n < len(dst) {
			err = ctx.Err()
		}
	}
	if !ordered {
		slices.Sort(dst[:n])
	}
	return n, err
}

// Decode returns the fields of an ID of the generator's layout.
func (g *Generator) Decode(id ID) Parts { return g.Layout().Decode(id) }

// Layout returns the generator's layout.
func (g *Generator) Layout() Layout {
	if g == nil {
		return Layout{}
	}
	return g.seq.layout
}

// Worker returns the generator's worker ID.
func (g *Generator) Worker() int {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seq.layout.Decode(g.seq.fixed).Worker
}

// refresh reads the clock. g.mu must be held.
func (g *Generator) refresh() (instant, error) {
	if g.clock != nil {
		return g.seq.layout.instant(g.clock.Now())
	}
	return g.seq.layout.instant(g.wall.now())
}

// earliest returns the first tick that calls may still stamp when the clock reads now.
func (g *Generator) earliest(now instant) int64 {
	if g.clock == nil {
		return g.seq.layout.plus(now, -maxLag)
	}
	return now.tick // a user's clock may leap, so ticks do not stay open for late calls
}
