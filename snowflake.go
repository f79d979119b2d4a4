package snowflake

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options are the settings of a Generator. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Layout divides the bits. Zero: DefaultLayout(), or the lease's.
	Layout Layout

	// Datacenter is put into the datacenter bits, for layouts that have them.
	Datacenter int

	// Clock tells the time. nil: SystemClock(), or the lease's. With your own
	// clock, each ID costs a call of Now, and a saturated generator loses the ticks
	// that its callers oversleep: see NextID.
	Clock Clock

	// OnBackward chooses what happens when the clock goes back.
	// nil: WaitPolicy(10 * time.Millisecond).
	OnBackward BackwardPolicy

	// BorrowAhead is how far timestamps may run ahead of the clock when a
	// tick's sequence is spent. 0: wait for the next tick. In a burst, the IDs of
	// BorrowAhead/Unit ticks come at once. If the clock goes back by less than
	// the part of BorrowAhead that is not in use, IDs go on at once and in order,
	// whatever the policy. 0 to the time that the layout lasts.
	//
	// When a process restarts, its clock may read earlier than its last ID by as
	// much: set After, or use a lease.
	BorrowAhead time.Duration

	// RewindTicks is how many past ticks RewindPolicy may go back to, counted
	// from the latest tick that was stamped. It must exceed the largest step back
	// that you want to survive, in ticks. Each tick takes 16 bytes. 0 to 1<<20.
	RewindTicks int

	// RandomStart starts each tick's sequence at a random value in its lower
	// half. Without it, nearly all IDs at low traffic have the sequence 0: they
	// are even, fall on one shard, and are easy to guess. Within a tick, IDs
	// still increase by 1, and at least half of the IDs of a tick remain (of a
	// one-bit sequence, at least one ID). With Layout.WorkerLast the low bits are
	// the worker's, and stay the same.
	RandomStart bool

	// After makes all IDs greater than this ID: pass SELECT max(id) to go on
	// after the IDs of an earlier process with this worker ID. 0: no limit.
	// As long as the clock reads earlier than After, it counts as having gone
	// back; no policy goes below After. New refuses an After that is more than a
	// day ahead of the clock: it is most likely an ID of another layout.
	After ID
}

const maxRewindTicks = 1 << 20

var defaultPolicy = WaitPolicy(10 * time.Millisecond)

// Generator issues IDs. All methods may be called by any number of goroutines.
//
// A call that begins after another has returned gets a larger ID. The exception:
// if the clock goes back, [ClockSeqPolicy] and [RewindPolicy] (and every policy
// that chooses ActionBump or ActionRewind) continue with smaller IDs.
type Generator struct {
	mu sync.Mutex // guards the fields down to lagging

	// The fields that NextID needs while the clock stays within the tick. Together
	// with wall.mono they fill one cache line.
	fresh  time.Duration // up to this long after wall's anchor, tick holds; 0 if clock is the user's
	nextID ID            // the next ID in tick
	left   int64         // how many IDs tick has left
	stride ID            // from one ID to the next in a tick; does not change
	wall   wall          // the clock, if it is a built-in one

	tick    int64  // the tick of the last ID
	past    *past  // what is remembered of earlier ticks; nil if nothing can go back
	queue   *queue // the callers that wait; nil if no caller ever did
	window  *window
	stats   Stats // Issued counts what tick has left, too
	fixed   ID    // the clock sequence, datacenter and worker bits
	lagging bool  // callers that waited for tick woke late; keep issuing from it until maxLag after it ends

	random bool
	borrow time.Duration
	layout Layout
	clock  Clock                      // nil if it is wall
	_      [^uint(0)>>63 ^ 1][36]byte // fills the cache lines if words have 32 bits
	policy BackwardPolicy
}

// Stats counts what a Generator has done since it was made.
type Stats struct {
	Issued   uint64        // IDs
	Waits    uint64        // waits of a call, for the next tick or for the clock to catch up
	Waited   time.Duration // the sum over the calls: if ten calls wait for one second at the same time, ten seconds
	Backward uint64        // times that the policy was asked
	Bumps    uint64        // changes of the clock sequence
	Rewinds  uint64        // steps back to an earlier tick
	Borrowed uint64        // ticks entered ahead of the clock
}

// New returns a Generator for a worker ID that nobody else has: as long as the
// Generator is in use, no other Generator, in this or any other process, may have
// the same worker ID, datacenter and layout.
//
// If the worker or the datacenter does not fit the layout, the error is a
// [*FieldRangeError]. Other errors match [ErrInvalidLayout], [ErrInvalidOptions]
// or, if Options.After is not an ID of the layout, [ErrInvalidID]. New refuses
// options that would silently do nothing: a ClockSeqPolicy without clock-sequence
// bits, a RewindPolicy without RewindTicks, a RandomStart without sequence bits.
// It reads the clock: if the clock is outside of the layout, the error matches
// [ErrBeforeEpoch] or [ErrTimeExhausted].
//
// HAZARD: New does not know which IDs an earlier process with this worker ID
// issued. If the clock reads no later than that process's last tick, IDs repeat: set
// Options.After to the largest ID that you stored.
func New(worker int, opts *Options) (*Generator, error) {
	return newGenerator(worker, nil, opts)
}

// NewLeased returns a Generator that stamps only what l grants. It returns the
// same errors as New, and the error of [Terms].Bind. If the granted span has not
// begun, the clock counts as having gone back until it reaches the span.
//
// A clock sequence has to be recorded before it is used. So ActionBump is
// possible only if l has [Terms].Bump, as the leases of package lease have.
//
// If NewLeased fails, the lease is still the caller's, to be released.
//
// HAZARD: a lease serves one Generator: two would repeat each other's IDs. The
// leases of package lease refuse the second.
func NewLeased(l Lease, opts *Options) (*Generator, error) {
	if l == nil {
		return nil, fmt.Errorf("%w: the lease is nil", ErrInvalidOptions)
	}
	return newGenerator(l.Grant().Worker, l, opts)
}

func newGenerator(worker int, lease Lease, opts *Options) (*Generator, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	t := termsOf(lease)
	if o.Layout == (Layout{}) {
		o.Layout = t.Layout
	}
	if o.Clock == nil {
		o.Clock = t.Clock
	}
	if o.Layout == (Layout{}) {
		o.Layout = DefaultLayout()
	}
	if o.OnBackward == nil {
		o.OnBackward = defaultPolicy
	}
	if err := o.check(worker, lease, t); err != nil {
		return nil, err
	}
	l := o.Layout
	g := &Generator{
		tick:   -1,
		stride: 1 << l.sequenceShift(),
		fixed:  l.fixed(0, o.Datacenter, worker),
		layout: l,
		clock:  o.Clock,
		policy: o.OnBackward,
		borrow: o.BorrowAhead,
		random: o.RandomStart,
	}
	if b, ok := o.Clock.(*builtinClock); ok {
		g.clock, g.wall = nil, b.begin(lease != nil)
	}
	now, err := g.refresh()
	if err != nil {
		return nil, err
	}
	if err := o.checkAfter(now); err != nil {
		return nil, err
	}
	if l.ClockSeqBits > 0 && lease == nil || o.RewindTicks > 0 {
		g.past = newPast(l, o.RewindTicks)
	}
	if o.After > 0 {
		g.resume(o.After)
	}
	if lease != nil {
		if err := g.lease(lease, t); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// check refuses options that are out of range, and options that would silently do
// nothing.
func (o *Options) check(worker int, lease Lease, t Terms) error {
	l := o.Layout
	if err := l.Validate(); err != nil {
		return err
	}
	if err := l.checkFields(0, o.Datacenter, worker); err != nil {
		return err
	}
	lasts := min(l.until(instant{}, l.maxTick()), math.MaxInt64-l.Unit)
	switch {
	case o.BorrowAhead < 0 || o.BorrowAhead > lasts:
		return fmt.Errorf("%w: BorrowAhead %v is not within 0 to %v, which is all the time of the layout", ErrInvalidOptions, o.BorrowAhead, lasts)
	case o.RewindTicks < 0 || o.RewindTicks > maxRewindTicks:
		return fmt.Errorf("%w: RewindTicks %d is not within 0 to %d", ErrInvalidOptions, o.RewindTicks, maxRewindTicks)
	case o.RandomStart && l.SequenceBits == 0:
		return fmt.Errorf("%w: RandomStart has no effect: the layout has no sequence bits", ErrInvalidOptions)
	}
	if err := l.Check(o.After); err != nil {
		return fmt.Errorf("Options.After: %w", err)
	}
	if f, ok := o.Clock.(ClockFunc); ok && f == nil {
		return fmt.Errorf("%w: Clock is a nil ClockFunc", ErrInvalidOptions)
	}
	return o.checkPolicy(lease, t)
}

// checkPolicy refuses a policy that would always fail.
func (o *Options) checkPolicy(lease Lease, t Terms) error {
	switch p := o.OnBackward.(type) {
	case waitPolicy:
		if p.max < 0 {
			return fmt.Errorf("%w: WaitPolicy(%v) is negative", ErrInvalidOptions, p.max)
		}
	case rewindPolicy:
		if o.RewindTicks == 0 {
			return fmt.Errorf("%w: RewindPolicy has no effect without RewindTicks", ErrInvalidOptions)
		}
	case clockSeqPolicy:
		if o.Layout.ClockSeqBits == 0 {
			return fmt.Errorf("%w: ClockSeqPolicy has no effect: the layout has no clock-sequence bits, as ClockSeqLayout has", ErrInvalidOptions)
		}
		if lease != nil && !t.canBump(o.Layout) {
			return fmt.Errorf("%w: ClockSeqPolicy has no effect: the lease cannot change its clock sequence", ErrInvalidOptions)
		}
	case BackwardFunc:
		if p == nil {
			return fmt.Errorf("%w: OnBackward is a nil BackwardFunc", ErrInvalidOptions)
		}
	}
	return nil
}

// maxAfter is how far Options.After may be ahead of the clock.
const maxAfter = 24 * time.Hour

// checkAfter refuses an After that can hardly be an ID of the layout.
func (o *Options) checkAfter(now instant) error {
	l := o.Layout
	after := instant{tick: int64(o.After) >> l.timeShift()}
	if after.tick <= l.plus(now, maxAfter) {
		return nil
	}
	return fmt.Errorf("%w: After %d was stamped at %s, more than a day ahead of the clock, which reads %s: it is probably an ID of another layout than %v",
		ErrInvalidOptions, o.After, formatTime(l.time(after)), formatTime(l.time(now)), l)
}

// NextID returns a new ID.
//
// If the tick's sequence is spent, it waits for the next tick. If the clock has
// gone back, it does what the policy says; the default is
// WaitPolicy(10 * time.Millisecond). Calls wait without the lock, and are served in
// order of arrival: if k calls are waiting and a tick has n IDs, the next call
// waits for k/n+1 ticks at most, and for the wake-up. (A Fill takes up to a whole
// tick at its turn.) Calls that need not wait are served in any order, so callers
// that ask in a loop get unequal shares of a tick. A caller that finds the tick
// spent joins the queue and is served in the next tick, before later callers.
//
// The ID's timestamp is the tick that the clock reads, or a tick up to BorrowAhead
// later. With a built-in clock it can also be a tick that ended up to 5 ms ago:
// callers that waited for a tick wake late, on Linux always, and without this a
// saturated generator would lose every other tick. Once callers waited for a tick,
// all calls get its IDs and then the IDs of the ticks after it, until the
// generator has caught up with the clock.
//
// Errors match [ErrClockBackward] (and the lease's error, if the lease could not
// record an ActionBump), [ErrTimeExhausted], [ErrBeforeEpoch] or [ErrLeaseExpired].
// A call that returns an error has changed nothing: it loses no ID, and no ID can
// repeat.
func (g *Generator) NextID() (ID, error) {
	// This is inTick for one ID, written out because it is the hot path: the call
	// would slow it down.
	if g.clock == nil {
		read := g.wall.early() // before the lock, so that nobody waits for it
		if !g.mu.TryLock() {
			read = g.contend()
		}
		if uint64(read-g.wall.mono) < uint64(g.fresh) && g.left > 0 {
			id := g.nextID
			g.nextID += g.stride
			g.left--
			g.mu.Unlock()
			return id, nil
		}
		g.mu.Unlock()
	}
	r, err := g.take(context.Background(), 1)
	return r.first, err
}

// NextIDContext is NextID with a limit to the wait. It returns ctx's error when
// ctx is done. If the call's place in the queue shows that its turn comes after
// ctx's deadline, it returns an error that matches [context.DeadlineExceeded] at
// once. If the store of a lease did not answer in time, an error can match both
// [ErrLeaseExpired] and context.DeadlineExceeded.
func (g *Generator) NextIDContext(ctx context.Context) (ID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if r := g.inTick(1); r.n > 0 {
		return r.first, nil
	}
	r, err := g.take(ctx, 1)
	return r.first, err
}

// Fill fills dst with new IDs in increasing order. It takes all IDs that a tick has
// left with one lock and one reading of the clock. It waits between ticks as
// NextIDContext does, and joins the end of the queue again for each tick. If there
// is an error, dst[:n] holds new IDs that the caller may use. If dst is empty, Fill
// returns 0 and ctx's error.
//
// The IDs of one call increase even if the clock goes back meanwhile under a policy
// that gives up order.
func (g *Generator) Fill(ctx context.Context, dst []ID) (n int, err error) {
	ordered := true
	for err = ctx.Err(); n < len(dst) && err == nil; {
		r := g.inTick(len(dst) - n)
		if r.n == 0 {
			r, err = g.take(ctx, len(dst)-n)
		}
		if r.n > 0 && n > 0 && r.first < dst[n-1] {
			ordered = false
		}
		part := dst[n : n+r.n]
		for i, id := 0, r.first; i < len(part); i, id = i+1, id+g.stride {
			part[i] = id
		}
		n += r.n
		if err == nil && n < len(dst) {
			err = ctx.Err()
		}
	}
	if !ordered {
		slices.Sort(dst[:n])
	}
	return n, err
}

// Decode takes apart an ID of the generator's layout.
func (g *Generator) Decode(id ID) Parts { return g.layout.Decode(id) }

// Layout returns the generator's layout.
func (g *Generator) Layout() Layout { return g.layout }

// Worker returns the generator's worker ID.
func (g *Generator) Worker() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.layout.Decode(g.fixed).Worker
}

// Stats returns what the generator has done so far.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Issued -= uint64(g.left)
	return s
}

// tries is how often a caller tries to get the lock before it goes to sleep; after
// each failure it lets another goroutine run. If callers slept at once, as
// Mutex.Lock does while other goroutines could run, 64 callers under full load
// would take several times the processor time: to sleep and be woken takes more
// than ten times as long as the lock is held. If they tried again at once, the
// lock's cache line would go from core to core all the time.
const tries = 20

// contend locks g.mu after a TryLock has failed, and returns a reading of the clock
// from before it got the lock.
func (g *Generator) contend() (read time.Duration) {
	for range tries {
		runtime.Gosched()
		read = g.wall.early()
		if g.mu.TryLock() {
			return read
		}
	}
	g.mu.Lock()
	return read
}

// inTick returns up to n of the IDs that the tick has left. It returns no ID if the
// built-in clock may have left the tick.
func (g *Generator) inTick(n int) run {
	if g.clock != nil {
		return run{}
	}
	var r run
	read := g.wall.early()
	if !g.mu.TryLock() {
		read = g.contend()
	}
	if uint64(read-g.wall.mono) < uint64(g.fresh) {
		r = g.draw(n)
	}
	g.mu.Unlock()
	return r
}
