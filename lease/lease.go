package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Lease is a worker ID that renews itself, and is replaced by another one if it is lost. It
// is a [snowflake.ManagedLease]: give it to [snowflake.NewLeased]. All methods may be
// called by any number of goroutines.
type Lease struct {
	store Store // guarded by op and mu: it changes if the directory of a file store was begun anew
	o     Options
	log   journal

	// op is a lock with room for one: whoever has put a value in may change the record. It
	// guards the fields that follow, up to the blank line.
	op       chan struct{}
	window   window    // what may be stamped
	granted  bool      // window is in the grant, because the clock has reached it
	unknown  bool      // a save failed, so the stored record has to be read before the next one
	tried    []Record  // the records of such saves: each may have been stored, or may be yet
	saved    time.Time // when the record was last saved
	horizon  horizon
	gaveBack <-chan struct{} // closed after a first attempt to free the worker IDs that an acquisition took and does not use
	lost     map[int]Record  // by worker ID: the last known records of the worker IDs that were lost

	record   atomic.Pointer[Record] // as last known to be stored; nil while there is no worker ID
	grant    atomic.Pointer[snowflake.Grant]
	accepted atomic.Bool // AcceptLeap was called

	mu      sync.Mutex
	stop    func(cause error) time.Time // stops the generator that is bound
	err     error                       // why the lease ended
	loss    error                       // why the granted worker ID was lost; nil again after another one is granted
	failing error                       // why the last renewal failed; nil if it succeeded
	stats   Stats
	wanted  *snowflake.Grant // calls wait for more than this grant,
	since   time.Time        // and since when
	news    chan struct{}    // closed, and made anew, when one of the fields above changes

	asked  chan struct{} // has room for one: a call puts a value in to ask for a renewal
	done   chan struct{}
	ctx    context.Context // ends the renewing
	cancel context.CancelFunc
	ended  chan struct{} // closed when the renewing has ended
}

// window is what may be stamped.
type window struct {
	seq      int
	from, to time.Time
	before   time.Time // the stored bound from before: not after from
}

// Stats says how a Lease is doing.
type Stats struct {
	Renewals     uint64    // how often the bound was moved
	Failures     uint64    // how often a renewal, or the replacement of a lost worker ID, failed
	Replacements uint64    // lost worker IDs that were replaced
	LastError    error     // why the last renewal failed, nil if it succeeded; after a time-out also the error before it
	Renewed      time.Time // when the last successful renewal began, by this host's clock
	Bound        time.Time // IDs may be issued for times before it
	Away         error     // with LocalCopy: why the store did not get the last renewal, nil if it did
}

func newLease(s Store, o Options) *Lease {
	l := &Lease{
		store: s,
		o:     o,
		log:   journal{log: o.Logger},
		op:    make(chan struct{}, 1),
		lost:  map[int]Record{},
		news:  make(chan struct{}),
		asked: make(chan struct{}, 1),
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Grant returns the worker ID, and the span of time in which the generator may issue IDs
// with it. It never blocks.
func (l *Lease) Grant() snowflake.Grant {
	if g := l.grant.Load(); g != nil {
		return *g
	}
	return snowflake.Grant{} // Acquire did not return this Lease
}

// Worker returns the worker ID. It changes if a lost worker ID is replaced.
func (l *Lease) Worker() int { return l.Grant().Worker }

// Terms is called by [snowflake.NewLeased]. A lease serves one generator, with the lease's
// layout and clock.
func (l *Lease) Terms() snowflake.Terms {
	return snowflake.Terms{
		Layout:  l.o.Layout,
		Clock:   l.o.Clock,
		Bind:    l.bind,
		Extend:  l.extend,
		CanBump: l.canBump,
		Bump:    l.bump,
	}
}

var errZero = fmt.Errorf("%w: this Lease was not made by Acquire", ErrInvalidOptions)

func (l *Lease) bind(b snowflake.Binding) error {
	if l.grant.Load() == nil {
		return errZero
	}
	if b.Layout != l.o.Layout {
		return &LayoutError{Worker: l.Worker(), Where: "the generator's options", Has: b.Layout, Want: l.o.Layout}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.stop != nil {
		return ErrInUse
	}
	l.stop = b.Stop
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
	s.Bound = l.Grant().To
	if local, ok := l.store.(*localCopy); ok {
		s.Away = local.whyAway()
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
	stop := l.stop
	l.mu.Unlock()
	var next time.Time
	if stop != nil {
		next = stop(ErrReleased)
	}
	l.finish(ErrReleased)
	l.cancel()
	patient, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	if err := l.calm(patient); err != nil {
		return unanswered(ctx, patient, err)
	}
	defer l.unlock()
	r := l.record.Load()
	if r == nil || r.State != Held {
		return nil
	}
	if stop == nil {
		next = r.Bound()
	}
	if err := l.vacate(patient, next); err != nil {
		return unanswered(ctx, patient, err)
	}
	l.log.released(l, *l.record.Load())
	return nil
}

// calm waits until the renewing has ended, and then takes op.
func (l *Lease) calm(ctx context.Context) error {
	select {
	case <-l.ended:
		return l.lock(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// vacate records that the worker ID is free, and that the generator stamped nothing from
// next on. (After a loss, next may be an instant under the worker ID that was lost.) op
// must be held.
func (l *Lease) vacate(ctx context.Context, next time.Time) error {
	w := l.window
	if !next.After(w.from) {
		next = w.before // nothing was stamped
	}
	return l.move(ctx, func(r Record) Record {
		r.State = vacant(&l.o)
		// The tick in which the window ends may be stamped as a whole, so next may lie up
		// to a tick after the bound.
		if next.Before(r.Bound().Add(l.o.Layout.Unit)) {
			r = r.withBound(r.ClockSeq, next)
		}
		return r
	})
}

// vacant returns the state of a worker ID after its holder gave it up.
func vacant(o *Options) State {
	if o.Reuse == ReuseOnce {
		return Spent
	}
	return Free
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

// publish grants the window. op must be held.
func (l *Lease) publish() {
	w := l.window
	l.granted = true
	l.grant.Store(&snowflake.Grant{Worker: l.record.Load().Worker, ClockSeq: w.seq, From: w.from, To: w.to})
}

// tell wakes the calls that wait for news. l.mu must be held.
func (l *Lease) tell() {
	close(l.news)
	l.news = make(chan struct{})
}

func (l *Lease) lock(ctx context.Context) error {
	select {
	case l.op <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Lease) unlock() { <-l.op }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

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
