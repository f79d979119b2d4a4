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

	// Clock tells the time. nil: SystemClock(), or the lease's. With a clock of
	// your own an ID costs what its Now does, and timestamps do not catch up with
	// callers that woke late: see NextID.
	Clock Clock

	// OnBackward chooses what happens when the clock goes back.
	// nil: WaitPolicy(10 * time.Millisecond).
	OnBackward BackwardPolicy

	// BorrowAhead is how far timestamps may run ahead of the clock when a
	// tick's sequence is spent. 0: wait for the next tick. With it, the IDs of
	// BorrowAhead/Unit ticks come at once in a burst. If the clock goes back by
	// less than is left of it, IDs go on at once and in order, whatever the
	// policy. 0 to the time that the layout lasts.
	//
	// A process that restarts may find itself behind its own last ID by as much:
	// set After, or use a lease.
	BorrowAhead time.Duration

	// RewindTicks is how many past ticks RewindPolicy may go back to, counted
	// from the latest tick that was stamped. Choose more ticks than the largest
	// step back that you want to survive has. Each takes 16 bytes. 0 to 1<<20.
	RewindTicks int

	// RandomStart starts each tick's sequence at a random value in its lower
	// half, so that IDs at low traffic are not all even, do not all fall on one
	// shard, and cannot be guessed from the IDs of other ticks. Within a tick,
	// IDs still increase by 1; and with Layout.WorkerLast the low bits are the
	// worker's. At least half of the IDs of a tick remain. (Of a one-bit
	// sequence, at least one.)
	RandomStart bool

	// After makes all IDs greater than this one: pass SELECT max(id) to go on
	// after the IDs of an earlier process with this worker ID. 0: no limit.
	// While the clock is behind After, it counts as having gone back; no policy
	// goes below After. An After that is more than a day ahead of the clock is
	// refused: it is most likely an ID of another layout.
	After ID
}

const maxRewindTicks = 1 << 20

var defaultPolicy = WaitPolicy(10 * time.Millisecond) // one for all generators

// Generator issues IDs. All methods may be called by any number of goroutines.
//
// A call that begins after another has returned gets a larger ID, unless a
// [ClockSeqPolicy] or [RewindPolicy] (or a policy of yours that chooses ActionBump
// or ActionRewind) answers a clock that went back.
type Generator struct {
	mu sync.Mutex // guards the fields down to lagging

	// What NextID needs while the clock stays within the tick: with wall.mono, one
	// cache line.
	fresh  time.Duration // up to this long after wall's anchor, tick holds; 0 if clock is the user's
	nextID ID            // the next ID in tick
	left   int64         // how many IDs tick has left
	stride ID            // from one ID to the next in a tick; does not change
	wall   wall          // the clock, if it is a built-in one

	tick    int64  // the tick of the last ID
	past    *past  // what is remembered of earlier ticks; nil if nothing can go back
	queue   *queue // the callers that wait; nil if none ever did
	window  *window
	stats   Stats // Issued counts what tick has left, too
	fixed   ID    // the clock sequence, datacenter and worker bits
	lagging bool  // callers that waited for tick woke late; keep issuing from it until maxLag after it ends

	random bool
	borrow time.Duration
	layout Layout
	clock  Clock                      // nil if it is wall
	_      [^uint(0)>>63 ^ 1][36]byte // fills the lines if words have 32 bits
	policy BackwardPolicy
}

// Stats counts what a Generator has done since it was made.
type Stats struct {
	Issued   uint64        // IDs
	Waits    uint64        // sleeps, for the next tick or for the clock to catch up
	Waited   time.Duration // the sum over the calls: ten calls that wait for a second together make ten seconds
	Backward uint64        // times that the policy was asked
	Bumps    uint64        // changes of the clock sequence
	Rewinds  uint64        // steps back to an earlier tick
	Borrowed uint64        // ticks entered ahead of the clock
}

// New returns a Generator for a worker ID that the caller knows to be its own:
// no other Generator, in this or any other process, may have it at the same
// time under the same layout and datacenter.
//
// It returns a [*FieldRangeError] for a worker or datacenter that does not fit
// the layout, and errors that match [ErrInvalidLayout], [ErrInvalidOptions] or,
// for an Options.After that is not an ID of the layout, [ErrInvalidID]. It refuses
// options that would silently do nothing: a ClockSeqPolicy without clock-sequence
// bits, a RewindPolicy without RewindTicks, a RandomStart without sequence bits.
// It reads the clock: if the clock is outside of the layout, the error matches
// [ErrBeforeEpoch] or [ErrTimeExhausted].
func New(worker int, opts *Options) (*Generator, error) {
	return newGenerator(worker, nil, opts)
}

// NewLeased returns a Generator that stamps only what l grants. Its errors are
// those of New and of [Terms].Bind. The granted span need not have begun: while
// the clock is before it, the clock counts as having gone back.
//
// A clock sequence has to be recorded before it is used. So ActionBump is
// possible only if l has [Terms].Bump, as the leases of package lease have.
//
// A lease serves one Generator: two would repeat each other's IDs. (Leases of
// package lease refuse the second.) If NewLeased fails, the lease is still the
// caller's, to be released.
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
// When the tick's sequence is spent it waits for the next tick, and when the
// clock has gone back it does what the policy says; the default is
// WaitPolicy(10 * time.Millisecond). Calls wait without the lock, and are served in
// order of arrival: if k calls are waiting and a tick has n IDs, the next call
// waits for k/n+1 ticks at most, and for the wake-up. (A Fill takes up to a whole
// tick at its turn.) Calls that need not wait have no order among them, so callers
// that ask in a loop get unequal shares of a tick; a caller that finds the tick
// spent is served first in the next one.
//
// The ID's timestamp is the tick that the clock reads, or one up to BorrowAhead
// later. With a built-in clock, callers that waited for a tick but woke late, as
// they always do on Linux, are still given that tick's IDs until 5 ms after its
// end, and so are the calls after them, as long as that tick or the ticks that
// follow it have some left; otherwise a saturated generator would lose every
// other tick. So a call that did not wait itself may get an ID of a tick that
// ended up to 5 ms ago.
//
// Errors match [ErrClockBackward] (and the lease's error, if the lease could not
// record an ActionBump), [ErrTimeExhausted], [ErrBeforeEpoch] or [ErrLeaseExpired].
// A call that returns an error has changed nothing: no ID is lost by it, and none
// can be repeated.
func (g *Generator) NextID() (ID, error) {
	// inTick, written out for one ID: this is the hot path, which a call more
	// would slow down.
	if g.clock == nil {
		read := time.Since(started) // before the lock, which others wait for
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
// once. (So can an error that matches [ErrLeaseExpired], of a store that did not answer.)
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

// Fill fills dst with new IDs, increasing. It takes all that a tick has left
// with one lock and one reading of the clock, and waits between ticks as
// NextIDContext does; for each tick it takes its place in the queue again. On
// error, dst[:n] holds new IDs, which are the caller's to use. An empty dst gives
// 0 and ctx's error.
//
// If the policy lets order go and the clock goes back meanwhile, the IDs of one
// call still increase.
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

// tries is how often a caller tries to get the lock, and lets another goroutine run
// after each failure, before it goes to sleep for it. If callers slept at once, as
// Mutex.Lock does while other goroutines could run, 64 of them would take several
// times the processor time at the ceiling, since going to sleep and being woken
// takes more than ten times what the lock is held for. If they tried again at
// once, the lock's cache line would go from core to core all the time.
const tries = 20

// contend locks g.mu, which another caller has, and returns a reading of the clock
// from before.
func (g *Generator) contend() (read time.Duration) {
	for range tries {
		runtime.Gosched()
		read = time.Since(started)
		if g.mu.TryLock() {
			return read
		}
	}
	g.mu.Lock()
	return read
}

// inTick returns up to n of the IDs that the tick has left, and none if the
// built-in clock is not known to be within it still.
func (g *Generator) inTick(n int) run {
	if g.clock != nil {
		return run{}
	}
	var r run
	read := time.Since(started)
	if !g.mu.TryLock() {
		read = g.contend()
	}
	if uint64(read-g.wall.mono) < uint64(g.fresh) {
		r = g.draw(n)
	}
	g.mu.Unlock()
	return r
}
