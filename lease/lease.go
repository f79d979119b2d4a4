package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// Lease is a worker ID that renews itself, and is replaced if it is lost, for
// [snowflake.NewLeased]. Any number of goroutines may use it.
type Lease struct {
	private // the terms for the generator
	o       Options
	store   Store
	cloning

	slot     chan *tenure.Tenure     // room for one; whoever takes the tenure out owns it
	shown    atomic.Pointer[shown]   // the tenure as others see it; nil while there is no worker ID
	grant    atomic.Pointer[granted] // what the generator may stamp; nil before the first grant
	accepted atomic.Bool             // AcceptLeap was called
	holds    holds                   // the open Holds
	standing                         // the answers to calls
	running                          // the goroutine that renews
	known    known                   // the knowledge of that goroutine, and of Acquire before it
	log      journal                 // the log; used by the goroutine that uses known
}

// known is a lease's knowledge that outlives a tenure. The goroutine that renews uses it, and
// Acquire before that.
type known struct {
	book.Watch                         // the times for which entries have not changed
	horizon    tenure.Horizon          // as the tenure had it when it renewed last
	passed     time.Time               // the watermark at the last look without a tenure
	lost       map[int]protocol.Record // by worker ID: the last known records of lost worker IDs
	last       int                     // the worker ID that a search tried to take last, or none
	inUse      bool                    // the store has had an entry
	searching  time.Time               // when the last search began to wait for a worker ID
	namesake   namesake

	// gaveBack is closed after a first attempt to free the worker IDs that an acquisition took but
	// does not use.
	gaveBack <-chan struct{}
}

// running is the goroutine that renews.
type running struct {
	asked  chan struct{}   // has room for one: a call puts a value in to ask for a renewal
	ctx    context.Context // ends the renewing
	cancel context.CancelFunc
	ended  chan struct{} // closed when the renewing has ended
}

// shown is the part of a tenure that others see.
type shown struct {
	record    protocol.Record
	window    protocol.Window
	passed    time.Time
	published time.Time
	horizon   tenure.Horizon
}

func newLease(s Store, o Options) *Lease {
	l := &Lease{
		o:        o,
		store:    s,
		slot:     make(chan *tenure.Tenure, 1),
		standing: standing{waiting: waiting{news: make(chan struct{})}, done: make(chan struct{})},
		known:    known{Watch: book.WatchOf(s), lost: map[int]protocol.Record{}, last: none, namesake: namesake{mine: map[int]string{}}},
		log:      journal{log: o.Logger},
		running:  running{asked: make(chan struct{}, 1), ended: make(chan struct{})},
	}
	l.slot <- nil
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.private = contract.Keep(&terms{
		Methods:    served{l},
		Generation: func() *atomic.Uint64 { return l.vm },
		Born:       func() uint64 { return l.grant.Load().generation },
		Bind:       l.bind,
	})
	return l
}

// Grant returns the worker ID, with the span of time to be stamped with it.
func (l *Lease) Grant() snowflake.Grant {
	if g := l.grant.Load(); g != nil {
		return g.Grant
	}
	return snowflake.Grant{} // Acquire did not return this Lease
}

// Worker returns the worker ID. It changes if a lost worker ID is replaced.
func (l *Lease) Worker() int { return l.Grant().Worker }

// Layout returns Options.Layout, or its default.
func (l *Lease) Layout() snowflake.Layout { return l.o.Layout }

// Clock returns Options.Clock, or its default.
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
	if l.generator.Stop != nil {
		return ErrInUse
	}
	l.generator = b
	return nil
}

// Done returns a channel that is closed when the lease ends: when it is released or, with OnLoss:
// Stop, when its worker ID is lost. After Release, the generator issues no more IDs; after a loss,
// none after the window's end.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil until Done is closed, and then an error that matches ErrReleased or ErrLost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// AcceptLeap lets the next successful renewal move the bound however far the clock has leapt. Call
// it if Stats shows an error that matches [ErrClockLeap], and the clock is right. Otherwise the
// lease accepts a leap that lasts (see the package doc).
func (l *Lease) AcceptLeap() { l.accepted.Store(true) }

// Stats returns the state of the lease, and its counters.
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

// grantWindow grants the window of a tenure that was taken out of the slot.
func (l *Lease) grantWindow(t *tenure.Tenure) {
	w := t.Window
	t.Granted = true
	l.grant.Store(&granted{snowflake.Grant{Worker: t.Record.Worker, ClockSeq: w.Seq, From: w.Begin(), To: w.To}, t.Born})
}

// take takes the tenure out of the slot, and give puts it in again.
func (l *Lease) take(ctx context.Context) (*tenure.Tenure, error) {
	return machine.TakeOut(ctx, l.slot)
}

func (l *Lease) give(t *tenure.Tenure) {
	if t == nil {
		l.shown.Store(nil)
	} else {
		l.shown.Store(&shown{t.Record, t.Window, t.Passed, t.Published(), t.Horizon})
	}
	l.slot <- t
}

// holds are the open Holds of a lease, and the first instant that each of them may have stamped.
type holds struct {
	mu   sync.Mutex
	open map[*time.Time]struct{}
}

// ends reports whether the lease ends when its worker ID is lost.
func (l *Lease) ends(lost error) bool { return l.o.OnLoss == Stop || l.torn(lost) }

// cloned reports whether another copy of this machine may hold the same worker ID.
func (l *Lease) cloned(t *tenure.Tenure) bool { return l.generation() != t.Born }

// away returns why the store was not told of the last save: see book.Offline.
func (l *Lease) away() error { return book.WhyAway(l.store) }
