package lease

import (
	"context"
	"errors"
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
	terms
	store     Store
	directory *fileStore // the store of File that store is, or that it copies; else nil
	o         Options
	log       journal
	vm        *atomic.Uint64 // the machine's generation; nil if nobody tells it
	begun     uint64         // the machine's generation when Acquire was called
	made      moment         // when it was called

	// op is a lock with room for one: whoever has put a value in may change the record. It
	// guards the fields that follow, up to the blank line.
	op        chan struct{}
	window    window    // what may be stamped
	born      uint64    // the machine's generation before the store was asked for the worker ID
	granted   bool      // window is in the grant, because the clock has reached it
	unknown   bool      // a save failed, so the stored record has to be read before the next one
	tried     []Record  // the records of such saves: each may have been stored, or may be yet
	restoring bool      // the record was sent to be put back, and it is not known that it was in time
	freed     bool      // a release has had no answer: others may have the worker ID by now
	saved     time.Time // when the record was last saved,
	savedAt   time.Time // and what the clock read before
	overdue   bool      // a save came so late that the holder may have counted as dead, and it has not looked at the watermark since
	horizon   horizon
	gaveBack  <-chan struct{} // closed after a first attempt to free the worker IDs that an acquisition took and does not use
	lost      map[int]Record  // by worker ID: the last known records of the worker IDs that were lost
	watch                     // of the entries that the renewing goroutine, and Acquire before it, have seen
	last      int             // the worker ID that a search tried to take last, or none

	record   atomic.Pointer[Record] // as last known to be stored; nil while there is no worker ID
	grant    atomic.Pointer[granted]
	accepted atomic.Bool // AcceptLeap was called
	mark     atomic.Pointer[time.Time]
	wiped    atomic.Bool // the store lost the record, and perhaps more that is not put back yet
	holds    holds

	mu      sync.Mutex
	bound   binding   // the generator; zero if there is none yet
	err     error     // why the lease ended
	loss    error     // why the granted worker ID was lost; nil again after another one is granted
	failing error     // why the last renewal failed; nil if it succeeded
	cause   error     // the last failure that was more than a time-out,
	caused  time.Time // and when it was
	stats   Stats
	wanted  *granted      // calls wait for more than this grant,
	since   time.Time     // and since when
	news    chan struct{} // closed, and made anew, when one of the fields above changes

	asked  chan struct{} // has room for one: a call puts a value in to ask for a renewal
	done   chan struct{}
	ctx    context.Context // ends the renewing
	cancel context.CancelFunc
	ended  chan struct{} // closed when the renewing has ended
}

// Stats says how a Lease is doing.
type Stats struct {
	Renewals     uint64    // how often the bound was moved
	Failures     uint64    // how often a renewal, or the replacement of a lost worker ID, failed
	Replacements uint64    // lost worker IDs that were replaced
	Restored     uint64    // how often the store had lost the record, and it was put back
	LastError    error     // why the last renewal failed, nil if it succeeded; after a time-out also the error before it
	Renewed      time.Time // when the last successful renewal began, by this host's clock
	Bound        time.Time // IDs may be issued for times before it
	WaitsUntil   time.Time // until when no worker ID is taken, because the store lost its entries; zero if it did not
	Away         error     // with LocalCopy: why the store did not get the last renewal, nil if it did
	Unsafe       []string  // settings with which the store's engine may lose what it acknowledged; nil if it was not asked, or there are none
	Clock        ClockSync // what the kernel says of the clock now
	Guarded      bool      // the hypervisor tells if the machine was cloned (see Options.VMClock)
	Clones       uint64    // how often it has told, and the worker ID was given up
}

// granted is a grant, and the machine's generation before the store was asked for its worker
// ID.
type granted struct {
	snowflake.Grant
	generation uint64
}

func newLease(s Store, o Options) *Lease {
	l := &Lease{
		store: s,
		o:     o,
		log:   journal{log: o.Logger},
		made:  thisMoment(),
		op:    make(chan struct{}, 1),
		lost:  map[int]Record{},
		watch: watch{seen: sightings{}},
		last:  none,
		news:  make(chan struct{}),
		asked: make(chan struct{}, 1),
		holds: holds{open: map[*time.Time]struct{}{}},
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
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

// Clock returns the clock of the lease. It is the generator's, unless snowflake.Options.Clock is set.
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
	if err := l.calm(patient); err != nil {
		return unanswered(ctx, patient, err)
	}
	defer l.unlock()
	r := l.record.Load()
	if r == nil || r.State != Held {
		return nil
	}
	if l.cloned() { // the other copy may stamp more than this generator knows
		return errCloned
	}
	if stop == nil {
		next = r.Bound()
	}
	state := Free
	if l.o.Reuse == ReuseOnce {
		state = Spent
	}
	err := errPutBack
	for errors.Is(err, errPutBack) { // after a loss, next may be an instant under the worker ID that was lost
		err = l.move(patient, func(r Record) Record {
			r = r.release(l.window, next, state, l.o.Layout.Unit)
			if stop == nil { // nobody has stopped whoever stamps by Grant
				r.Prior = r.Prior.and(prior{r.Least, next})
			}
			return r
		})
	}
	if err != nil {
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
	l.grant.Store(&granted{snowflake.Grant{Worker: l.record.Load().Worker, ClockSeq: w.seq, From: w.begin(), To: w.to}, l.born})
}

// tell wakes the calls that wait for news. l.mu must be held.
func (l *Lease) tell() {
	close(l.news)
	l.news = make(chan struct{})
}

func (l *Lease) lock(ctx context.Context) error { return awaitTurn(ctx, l.op) }

// awaitTurn waits for the turn of a call, which has it then. A call whose context has ended does not get a turn: whether it gets one
// would be chance if the turn is free.
func awaitTurn(ctx context.Context, turn chan<- struct{}) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Lease) unlock() { <-l.op }

// randomN returns a random number from 0 to n-1.
func randomN[N int | time.Duration](n N) N { return N(dice(int64(n))) }

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
