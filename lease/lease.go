package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Lease is a worker ID that renews itself, and replaces itself if it is lost. It
// is a [snowflake.ManagedLease]: give it to [snowflake.NewLeased]. All methods may
// be called by any number of goroutines.
type Lease struct {
	store Store // another one if the directory of a file store was begun anew: guarded by op and mu
	o     Options
	log   journal

	// op has room for one: whoever is changing the record. It guards what
	// follows, up to the blank line.
	op       chan struct{}
	window   window    // what may be stamped
	granted  bool      // the grant has it, because the clock has reached it
	unknown  bool      // a save failed, so the stored record has to be looked at
	tried    []Record  // what such saves would have made of it, or may make yet
	saved    time.Time // when the record was last saved
	horizon  horizon
	gaveBack <-chan struct{} // closed when what an acquisition took in vain was looked for
	lost     map[int]Record  // the records of the worker IDs that were lost, as they were last known

	record   atomic.Pointer[Record] // as it was last known to be stored; nil while there is no worker ID
	grant    atomic.Pointer[snowflake.Grant]
	accepted atomic.Bool // AcceptLeap was called

	mu      sync.Mutex
	stop    func(cause error) time.Time // of the generator that is bound
	err     error                       // why the lease ended
	loss    error                       // why the granted worker ID was lost; nil again when another one is granted
	failing error                       // why the last renewal failed; nil if it succeeded
	stats   Stats
	wanted  *snowflake.Grant // what calls wait for more than,
	since   time.Time        // and since when
	news    chan struct{}    // closed, and made anew, when one of these changes

	asked  chan struct{} // has room for one: a call asks for a renewal
	done   chan struct{}
	ctx    context.Context // of the renewing
	cancel context.CancelFunc
	ended  chan struct{} // closed when the renewing has ended
}

// window is what may be stamped.
type window struct {
	seq      int
	from, to time.Time
	before   time.Time // the bound that was stored before: not after from
}

// Stats says how a Lease is doing.
type Stats struct {
	Renewals     uint64    // bounds moved
	Failures     uint64    // renewals and replacements that failed
	Replacements uint64    // lost worker IDs that were replaced
	LastError    error     // why the last renewal failed, nil if it succeeded; a time-out does not hide what was wrong before it
	Renewed      time.Time // when the last renewal that succeeded was begun, by this host's clock
	Bound        time.Time // IDs before it may be stamped
	Away         error     // with LocalCopy: why the store was not told of the last renewal, nil if it was
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

// Grant returns what may be stamped. It never blocks.
func (l *Lease) Grant() snowflake.Grant {
	if g := l.grant.Load(); g != nil {
		return *g
	}
	return snowflake.Grant{} // of a Lease that Acquire did not return
}

// Worker returns the worker ID. It changes when a lost one is replaced.
func (l *Lease) Worker() int { return l.Grant().Worker }

// Terms is for [snowflake.NewLeased]. A lease serves one generator, of its own
// layout.
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

var errZero = fmt.Errorf("%w: this Lease is zero; Acquire returns one that is not", ErrInvalidOptions)

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

// Done returns a channel that is closed when the lease has ended: it was released
// or, with OnLoss: Stop, it has lost its worker ID. (Then its generator may still
// issue what is left of the window.)
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil before Done is closed. After that it returns why: an error
// that matches ErrReleased or ErrLost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// AcceptLeap lets the next renewal that succeeds move the bound however far the
// clock has leapt. Call it when Stats shows an error that matches [ErrClockLeap],
// the clock is known to be right, and you do not want to wait for the leap to be
// accepted by itself (see Options.MaxLeap).
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

// Release ends the lease: the generator stops, and the worker ID is free for
// others from the first instant that it did not stamp. It returns the store's
// error if that could not be recorded; the lease has ended all the same, and
// the worker ID comes free by itself after a window. It waits for the store for a
// window, or 1 s if that is more, and not past ctx. It may be called again.
// If the lease was not given to NewLeased, its bound stays what it was.
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

// calm waits until the renewing has ended, and nobody else changes the record.
func (l *Lease) calm(ctx context.Context) error {
	select {
	case <-l.ended:
		return l.lock(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// vacate records that the worker ID is free, and that the generator stamped
// nothing from next on. (That may be an instant of another worker ID, which was lost.)
// The caller holds op.
func (l *Lease) vacate(ctx context.Context, next time.Time) error {
	w := l.window
	if !next.After(w.from) {
		next = w.before // nothing was stamped
	}
	return l.move(ctx, func(r Record) Record {
		r.State = vacant(&l.o)
		// A window that ends within a tick has that tick, so the last ID may end
		// after it.
		if next.Before(r.Bound().Add(l.o.Layout.Unit)) {
			r = r.withBound(r.ClockSeq, next)
		}
		return r
	})
}

// vacant is the state of a worker ID that its holder no longer needs.
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

// publish grants what the window has. The caller holds op.
func (l *Lease) publish() {
	w := l.window
	l.granted = true
	l.grant.Store(&snowflake.Grant{Worker: l.record.Load().Worker, ClockSeq: w.seq, From: w.from, To: w.to})
}

// tell wakes the calls that wait for a change. l.mu must be held.
func (l *Lease) tell() {
	close(l.news)
	l.news = make(chan struct{})
}

// lock waits until nobody else is changing the record.
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

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error { return nap(ctx, d, nil) }

// nap is sleep that ends early if there is something in wake.
func nap(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
