package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
)

// terms and binding are what a lease and the generator that it serves tell each other.
type (
	terms   = contract.Terms[snowflake.Layout]
	binding = contract.Binding[snowflake.Layout]
)

// Lease is a worker ID that renews itself, and is replaced by another one if it is lost. It
// is for [snowflake.NewLeased]. All methods may be called by any number of goroutines.
type Lease struct {
	terms // for the generator
	o     Options
	store Store
	cloning

	slot     chan *hold              // room for one; whoever takes the hold out owns it
	shown    atomic.Pointer[shown]   // what others see of the hold; nil while there is no worker ID
	grant    atomic.Pointer[granted] // what the generator may stamp; nil before the first grant
	accepted atomic.Bool             // AcceptLeap was called
	holds    holds                   // the open Holds
	standing                         // what calls are told
	running                          // the goroutine that renews
	known    known                   // what that goroutine, and Acquire before it, have learned
	log      journal                 // used by whoever uses known
}

// known is what a lease knows from one hold to the next. The goroutine that renews uses it, and
// Acquire before that.
type known struct {
	watch                  // how long entries have not changed
	horizon horizon        // as the hold had it when it renewed last
	passed  time.Time      // what the watermark had passed at the last look without a hold
	lost    map[int]record // by worker ID: the last known records of lost worker IDs
	last    int            // the worker ID that a search tried to take last, or none
	inUse   bool           // the store has had an entry

	// gaveBack is closed after a first attempt to free the worker IDs that an acquisition took but
	// does not use.
	gaveBack <-chan struct{}
}

// standing is what calls are told of the lease. mu guards the other fields.
type standing struct {
	mu      sync.Mutex
	bound   binding   // the generator; zero if there is none yet
	err     error     // why the lease ended
	loss    error     // why the granted worker ID was lost; nil again after another one is granted
	failing error     // why the last renewal failed; nil if it succeeded
	cause   error     // the last failure that was more than a time-out,
	caused  time.Time // and when it was
	wiped   bool      // the store lost the record, and perhaps more that is not put back yet
	stats   Stats
	wanted  *granted      // calls wait for more than this grant,
	since   time.Time     // and since when
	news    chan struct{} // closed, and made anew, when one of the fields above changes
	done    chan struct{} // closed when err is set
}

// running is the goroutine that renews.
type running struct {
	asked  chan struct{}   // has room for one: a call puts a value in to ask for a renewal
	ctx    context.Context // ends the renewing
	cancel context.CancelFunc
	ended  chan struct{} // closed when the renewing has ended
}

// shown is what others see of a hold.
type shown struct {
	own       record
	window    window
	passed    time.Time
	published time.Time
	horizon   horizon
}

// Stats says how a Lease is doing.
type Stats struct {
	Renewals     uint64 // renewals that succeeded, also those that left the bound where it was
	Failures     uint64 // how often a renewal, or the replacement of a lost worker ID, failed
	Replacements uint64 // lost worker IDs that were replaced
	Restored     uint64 // how often the store had lost the record, and it was put back

	// LastError is why the last renewal failed, nil if it succeeded. After a time-out it also has
	// the error before it.
	LastError error

	Renewed time.Time // when the last successful renewal began, by this host's clock
	Bound   time.Time // IDs may be issued for times before it

	// WaitsUntil is until when no worker ID is taken because the store has lost its entries. It is
	// zero if the lease does not wait for that.
	WaitsUntil time.Time

	// Away is why, with LocalCopy, the store did not get the last renewal; nil if it did.
	Away error

	// Unsafe has the settings with which the store's engine may lose acknowledged writes. It is nil
	// if there are none, or if the store was not asked.
	Unsafe []string

	Clock   ClockSync // what the kernel says of the clock now
	Guarded bool      // the hypervisor reports clones of the machine (see Options.VMClock)
	Clones  uint64    // how often it has reported one, and the worker ID was given up
}

// granted is a grant, and the machine's generation before the store was asked for its worker
// ID.
type granted struct {
	snowflake.Grant
	generation uint64
}

func newLease(s Store, o Options) *Lease {
	l := &Lease{
		o:        o,
		store:    s,
		slot:     make(chan *hold, 1),
		holds:    holds{open: map[*time.Time]struct{}{}},
		standing: standing{news: make(chan struct{}), done: make(chan struct{})},
		known:    known{watch: watchOf(s), lost: map[int]record{}, last: none},
		log:      journal{log: o.Logger},
		running:  running{asked: make(chan struct{}, 1), ended: make(chan struct{})},
	}
	l.slot <- nil
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.terms = terms{
		Generation: func() *atomic.Uint64 { return l.vm },
		Born:       func() uint64 { return l.grant.Load().generation },
		Bind:       l.bind,
	}
	return l
}

// Grant returns the worker ID, and the span of time in which the generator may issue IDs
// with it. It never blocks.
func (l *Lease) Grant() snowflake.Grant {
	if g := l.grant.Load(); g != nil {
		return g.Grant
	}
	return snowflake.Grant{} // Acquire did not return this Lease
}

// Worker returns the worker ID. It changes if a lost worker ID is replaced.
func (l *Lease) Worker() int { return l.Grant().Worker }

// Layout returns the layout of the IDs. It is the generator's.
func (l *Lease) Layout() snowflake.Layout { return l.o.Layout }

// Clock returns the clock of the lease. It is the generator's, unless snowflake.Options.Clock is
// set.
func (l *Lease) Clock() snowflake.Clock { return l.o.Clock }

var errZero = fmt.Errorf("%w: this Lease was not made by Acquire", ErrInvalidOptions)

func (l *Lease) bind(b binding) error {
	if b.Layout != l.o.Layout {
		return &LayoutError{Worker: l.Worker(), Where: "the generator's options", Has: b.Layout, Want: l.o.Layout}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.bound.Stop != nil {
		return ErrInUse
	}
	l.bound = b
	return nil
}

// Done returns a channel that is closed when the lease ends: when it is released or, with
// OnLoss: Stop, when its worker ID is lost. After a loss, its generator may still issue IDs
// until the window ends.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil until Done is closed. After that it returns an error that matches
// ErrReleased or ErrLost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// AcceptLeap lets the next successful renewal move the bound however far the clock has
// leapt. Call it if Stats shows an error that matches [ErrClockLeap], and you know that the
// clock is right, and you do not want to wait until the lease accepts the leap by itself
// (see Options.MaxLeap).
func (l *Lease) AcceptLeap() { l.accepted.Store(true) }

// Stats returns how the lease is doing.
func (l *Lease) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Bound, s.Guarded = l.Grant().To, l.vm != nil
	if l.store != nil { // Acquire made this Lease
		s.Away, s.Clock = l.away(), l.o.clockSync()
	}
	return s
}

// Release ends the lease. The generator stops, and others may have the worker ID from the
// end of the generator's last tick on. If this cannot be recorded, Release returns the
// store's error; the lease has ended all the same, and the worker ID comes free by itself
// after a window. If the lease was never given to NewLeased, the worker ID also comes free
// after a window.
//
// Release waits for the store for a window, or for 1 s if that is more, and not past ctx.
// It may be called again.
func (l *Lease) Release(ctx context.Context) error {
	if l.grant.Load() == nil {
		return errZero
	}
	l.mu.Lock()
	stop := l.bound.Stop
	l.mu.Unlock()
	var next time.Time
	if stop != nil {
		next = stop(ErrReleased)
	}
	l.finish(ErrReleased)
	l.cancel()
	patient, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	h, err := l.calm(patient)
	if err != nil {
		return unanswered(ctx, patient, err)
	}
	defer l.give(h)
	if h == nil || h.own.State != StateHeld {
		return nil
	}
	if l.cloned(h) { // the other copy may stamp more than this generator knows
		return errCloned
	}
	if err := h.release(l.line(patient), next, stop != nil); err != nil {
		return unanswered(ctx, patient, err)
	}
	l.log.released(l, h.own)
	return nil
}

// calm waits until the renewing goroutine has ended, and then takes the hold.
func (l *Lease) calm(ctx context.Context) (*hold, error) {
	select {
	case <-l.ended:
		return l.take(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// finish closes Done, once.
func (l *Lease) finish(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
		l.tell()
	}
}

// publish grants the window of a hold that was taken out of the slot.
func (l *Lease) publish(h *hold) {
	w := h.window
	h.granted = true
	l.grant.Store(&granted{snowflake.Grant{Worker: h.own.Worker, ClockSeq: w.seq, From: w.begin(), To: w.to}, h.born})
}

// tell wakes the calls that wait for news. l.mu must be held.
func (l *Lease) tell() {
	close(l.news)
	l.news = make(chan struct{})
}

// take takes the hold out of the slot, and give puts it in again.
func (l *Lease) take(ctx context.Context) (*hold, error) { return takeOut(ctx, l.slot) }

func (l *Lease) give(h *hold) {
	if h == nil {
		l.shown.Store(nil)
	} else {
		l.shown.Store(&shown{h.own, h.window, h.passed, h.published(), h.horizon})
	}
	l.slot <- h
}

// takeOut takes what is in a slot. If ctx has ended it does not try, because select would choose at
// random.
func takeOut[T any](ctx context.Context, slot <-chan T) (is T, err error) {
	if ctx.Err() != nil {
		return is, ctx.Err()
	}
	select {
	case is = <-slot:
		return is, nil
	case <-ctx.Done():
		return is, ctx.Err()
	}
}

// randomN returns a random number from 0 to n-1.
func randomN[N int | time.Duration](n N) N { return N(dice(int64(n))) }

// timeSince returns how long ago t was.
func timeSince(t time.Time) time.Duration { return timeNow().Sub(t) }

func sleep(ctx context.Context, d time.Duration) error { return nap(ctx, d, nil) }

// nap sleeps for d, but returns early if ctx is done or wake has a value.
func nap(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := newTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
