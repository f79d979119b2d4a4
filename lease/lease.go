package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake"
)

// Reuse says what becomes of a worker ID that its holder no longer needs.
type Reuse uint8

const (
	// ReuseAny lets anybody have it, from its bound on.
	ReuseAny Reuse = iota
	// ReuseKeep lets only the owner that had it first have it again, and gives
	// an owner no second one: after a crash it waits for its own.
	ReuseKeep
	// ReuseOnce throws it away: every acquisition takes an ID that was never
	// used, as Baidu's uid-generator does. The range will run out.
	ReuseOnce

	// A record says how its worker ID was taken, and who comes next keeps to
	// the stricter of that and its own Options.Reuse.
)

// Options are the settings of Acquire. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Layout is that of the IDs. Zero: snowflake.DefaultLayout(). NewLeased
	// takes it from the lease.
	Layout snowflake.Layout

	// Owner is who asks, for people and for stickiness: an owner gets a worker
	// ID that it had before in preference to others, where that is free. (After
	// a crash it is not known to be, for up to a window; see ReuseKeep.) Make
	// it stable across restarts and different for each process, such as a
	// pod's name. Empty: the host's name.
	Owner string

	// Window is how far ahead of the clock the bound is kept: how long IDs can
	// be issued while the store is away, and how long a worker ID stays
	// unusable after a crash. 0: 3 s, or 3 ticks of the layout where that is
	// more. At least 1 ms, and at least a tick.
	Window time.Duration

	// First and Count are the range of worker IDs: Count of them, beginning with
	// First. Count 0: up to the layout's last.
	First, Count int

	// Reuse says what becomes of a worker ID afterwards.
	Reuse Reuse

	// LocalCopy is a directory of this host, as File takes one, that keeps a
	// copy of the lease: with it the owner can start, and go on, while the store
	// is away. Only the very first acquisition needs the store. Without it a
	// start takes up to a window for its answers that do not come and, after a
	// crash, up to another one until the bound has passed. Empty: none.
	//
	// It takes Reuse: ReuseKeep, because the store cannot be asked whether another
	// got the worker ID meanwhile. For the same reason the directory's identity
	// becomes a part of the owner's name: where the directory is lost, or the
	// owner moves to another host, it gets another worker ID.
	//
	// The directory must be there for as long as the lease: when the copy is
	// gone, the lease ends with ErrLost.
	//
	// HAZARD: a directory that is copied, or restored from a backup, is an owner
	// twice, and a record that is removed from the store gives the worker ID to
	// another: both can issue IDs twice.
	LocalCopy string

	// MaxLeap is how much further ahead than expected a bound may lie, and so
	// how much of the future a clock that leapt can burn. 0: 1 minute. Give a
	// larger value to accept a leap.
	MaxLeap time.Duration

	// History is for how long a store that is a [Historian] keeps who held a
	// worker ID before, for [Whois]. It is counted in ID time, back from the clock,
	// and kept to when a worker ID or clock sequence changes hands. 0: 90 days.
	History time.Duration

	// Clock is the generator's: NewLeased takes it from the lease.
	// nil: snowflake.SystemClock().
	Clock snowflake.Clock
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Layout == (snowflake.Layout{}) {
		d.Layout = snowflake.DefaultLayout()
	}
	if err := d.Layout.Validate(); err != nil {
		return d, err
	}
	if d.Owner == "" {
		d.Owner = hostname()
	}
	if d.Window == 0 {
		d.Window = 3 * max(time.Second, min(d.Layout.Unit, time.Duration(1<<60)))
	}
	if d.MaxLeap == 0 {
		d.MaxLeap = time.Minute
	}
	if d.Clock == nil {
		d.Clock = snowflake.SystemClock()
	}
	if d.History == 0 {
		d.History = 90 * 24 * time.Hour
	}
	all := 1 << d.Layout.WorkerBits
	if d.Count == 0 {
		d.Count = all - d.First
	}
	switch {
	case d.First < 0 || d.Count <= 0 || d.Count > all-d.First:
		return d, fmt.Errorf("%w: %d worker IDs from %d on are not within 0 to %d", ErrInvalidOptions, d.Count, d.First, all-1)
	case d.History < 0:
		return d, fmt.Errorf("%w: History %v is negative", ErrInvalidOptions, d.History)
	case d.Window < max(time.Millisecond, d.Layout.Unit):
		return d, fmt.Errorf("%w: Window %v is under %v", ErrInvalidOptions, d.Window, max(time.Millisecond, d.Layout.Unit))
	case d.MaxLeap < 0:
		return d, fmt.Errorf("%w: MaxLeap %v is negative", ErrInvalidOptions, d.MaxLeap)
	case !utf8.ValidString(d.Owner) || strings.ContainsRune(d.Owner, 0):
		return d, fmt.Errorf("%w: Owner %q is not UTF-8 without NUL", ErrInvalidOptions, d.Owner)
	case d.LocalCopy != "" && d.Reuse != ReuseKeep:
		return d, fmt.Errorf("%w: LocalCopy takes Reuse: ReuseKeep, or the copy's worker ID may be another's by now", ErrInvalidOptions)
	case d.Reuse > ReuseOnce:
		return d, fmt.Errorf("%w: Reuse %d is unknown", ErrInvalidOptions, d.Reuse)
	}
	return d, nil
}

// last returns the last worker ID of the range.
func (o *Options) last() int { return o.First + o.Count - 1 }

// begin returns where a window begins if nothing was stamped at or after from and
// the clock reads now: with the tick of now, or at from.
func (o *Options) begin(from, now time.Time) time.Time {
	if id, err := o.Layout.Encode(snowflake.Parts{Time: now}); err == nil {
		now = o.Layout.Decode(id).Time
	}
	return later(from, now).UTC()
}

// now reads the clock, without a monotonic part that comparisons would go by.
func (o *Options) now() time.Time { return o.Clock.Now().Round(0) }

// patience is how long Acquire waits for an answer of the store.
func (o *Options) patience() time.Duration { return max(o.Window, time.Second) }

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// Lease is a worker ID that renews itself. It is a [snowflake.Lease]: give it to
// [snowflake.NewLeased]. All methods may be called by any number of goroutines.
type Lease struct {
	store    Store
	o        Options
	ownClock bool // the store's is another than ours

	op       chan struct{} // has room for one: whoever is changing the record
	unknown  bool          // guarded by op: a save failed, so that the stored record has to be looked at
	tried    []Record      // guarded by op: what such saves would have made of it, or may make yet
	saved    time.Time     // guarded by op: when the record was last saved
	base     time.Time     // guarded by op: the highest bound, when it was last moved,
	moved    time.Time     // guarded by op: and when that was
	accepted atomic.Bool   // AcceptLeap was called

	record atomic.Pointer[Record] // the last one known to be stored
	window atomic.Pointer[window]

	mu    sync.Mutex
	stop  func() time.Time // of the generator that is bound
	err   error            // why it ended
	stats Stats

	done   chan struct{}
	ctx    context.Context // of the renewal
	cancel context.CancelFunc
	ended  chan struct{} // closed when the renewal has ended
}

// window is what may be stamped.
type window struct {
	seq      int
	from, to time.Time
	before   time.Time // the bound that was stored before: not after from
}

// Stats says how a Lease is doing.
type Stats struct {
	Renewals  uint64    // bounds moved
	Failures  uint64    // moves that failed
	LastError error     // of the last move, nil where it succeeded
	Renewed   time.Time // when the last successful move was begun, by this host's clock
	Bound     time.Time // IDs before it may be stamped
	Away      error     // with LocalCopy: why the store was not told of the last move, nil where it was
}

// Worker returns the worker ID.
func (l *Lease) Worker() int { return l.record.Load().Worker }

// Layout returns the layout that the lease is for.
func (l *Lease) Layout() snowflake.Layout { return l.o.Layout }

// Clock returns Options.Clock, the generator's.
func (l *Lease) Clock() snowflake.Clock { return l.o.Clock }

// Window returns the span of ID time that may be stamped without a clock
// sequence, that is, under clock sequence 0. While another one is current it is
// empty. It never blocks.
func (l *Lease) Window() (notBefore, notAfter time.Time) {
	w := l.window.Load()
	if w.seq != 0 {
		return w.to, w.to
	}
	return w.from, w.to
}

// ClockSeqWindow returns the clock sequence to stamp, and its window.
func (l *Lease) ClockSeqWindow() (seq int, notBefore, notAfter time.Time) {
	w := l.window.Load()
	return w.seq, w.from, w.to
}

// CanBump reports whether there is a clock sequence that is behind now.
func (l *Lease) CanBump(now time.Time) bool {
	_, from := l.record.Load().free(now)
	return !from.After(now)
}

// Bump goes over from clock sequence from, if that is the current one, to one
// that is behind now, and returns when that is recorded. It waits for the store
// for up to a third of a window.
func (l *Lease) Bump(ctx context.Context, from int, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.Window/3)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if l.window.Load().seq != from {
		return nil
	}
	if err := l.Err(); err != nil {
		return err
	}
	seq, begin := l.record.Load().free(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := window{seq: seq, from: l.o.begin(begin, now), before: begin}
	err := l.move(ctx, func(r Record) Record { return r.withWindow(w, now.Add(l.o.Window)) })
	if err != nil {
		return err
	}
	w.to = l.record.Load().Bound()
	l.window.Store(&w)
	return nil
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

// Bind is called by [snowflake.NewLeased]. A lease serves one generator, of its
// own layout.
func (l *Lease) Bind(b snowflake.Binding) error {
	if b.Layout != l.o.Layout {
		return &LayoutError{Worker: l.Worker(), Has: b.Layout, Want: l.o.Layout}
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

// Done returns a channel that is closed when the lease has ended: lost, released,
// or its context done. Its generator may still issue what is left of the window.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil before Done is closed. After that it returns why: an error
// that matches ErrLost, ErrReleased or the context's.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// AcceptLeap lets the next renewal that succeeds move the bound however far the
// clock has leapt. Call it when Stats shows an error that matches [ErrClockLeap] and the
// clock is known to be right: a machine that was suspended shows such a leap.
func (l *Lease) AcceptLeap() { l.accepted.Store(true) }

// Stats returns how the lease is doing.
func (l *Lease) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Bound = l.window.Load().to
	if local, ok := l.store.(*localCopy); ok {
		if err := local.away.Load(); err != nil {
			s.Away = *err
		}
	}
	return s
}

// Acquire takes a worker ID for opts.Owner and keeps it until Release, or until
// ctx is done: ctx bounds both the acquisition and the life of the lease. So do
// not give it one with a time-out, nor one that ends before your last ID: what is
// left of the window then is all that is left. When Acquire returns, the clock
// has reached the window.
//
// It prefers a worker ID that the owner had before, then the smallest, of those
// whose bound has passed (or, where others were quicker, one of the smallest);
// else one whose bound passes within a window, for which it waits. While all are
// held it waits for up to a window and a half, in case that one is released or
// its holder is dead, and then returns an [*ExhaustedError]. Where only bounds
// further in the future are left, because the clock was set back, it returns a
// [*snowflake.ClockBackwardError] that says by how much. Other errors match
// ErrInvalidOptions, snowflake.ErrInvalidLayout, ErrBadRecord, ErrLayout,
// ErrClockLeap, or are the store's.
func Acquire(ctx context.Context, s Store, opts *Options) (*Lease, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidOptions)
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.LocalCopy != "" {
		if s, err = withLocalCopy(ctx, s, &o); err != nil {
			return nil, err
		}
	}
	l := &Lease{
		store: s,
		o:     o,
		op:    make(chan struct{}, 1),
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	if err := l.claim(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	go l.renew(l.ctx)
	if err = l.awaitWindow(l.ctx); err == nil {
		err = l.catchUp(l.ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.abandon(ctx))
	}
	return l, nil
}

// claim makes one worker ID ours. It waits for a free one for up to a window, and
// as long for each answer of the store.
func (l *Lease) claim(ctx context.Context) error {
	start := time.Now()
	var snap Snapshot
	passed := map[int]error{} // the worker IDs that others were quicker at, or whose records could not be saved
	conflicts := 0
	var failures []error // other than those
	var tried []attempt
	busy := locks{}
	for reload := true; ; {
		if reload {
			var err error
			if snap, err = l.load(ctx); err != nil {
				return err
			}
			l.ownClock = snap.OwnClock
			reload = false
			if l.adopt(tried, snap) {
				return nil
			}
		}
		c, wait, err := choose(&l.o, snap, passed, conflicts)
		if err != nil {
			reload = true
			if forget(passed, ErrConflict) {
				continue
			}
			wait = min(wait, l.o.Window/4) // one may be released, too
			if wait <= 0 || time.Since(start)+wait > l.o.Window+l.o.Window/2 {
				return l.locate(err)
			}
			if ended := sleep(ctx, wait); ended != nil {
				return fmt.Errorf("%w: %w", ended, l.locate(err))
			}
			continue
		}
		a, err := l.attempt(snap, c)
		if err != nil {
			return err
		}
		err = l.take(ctx, a)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrConflict):
			tried = append(tried, a) // a client that asks again by itself can conflict with itself
			conflicts++
			passed[c.record.Worker] = err
			if errors.Is(err, errLocked) {
				if passed[c.record.Worker], err = busy.found(c.record.Worker, err, l.o.patience()), sleep(ctx, minBackoff); err != nil {
					return err
				}
			}
			if conflicts%maxConflicts == 0 || l.o.Reuse != ReuseAny {
				reload = forget(passed, ErrConflict)
			}
		case ctx.Err() != nil:
			return err
		case len(failures) == maxFailures:
			return failures[0]
		default: // it may have been saved, or be yet
			tried = append(tried, a)
			failures = append(failures, err)
			reload = true
			if l.o.Reuse != ReuseKeep || errors.Is(err, ErrLost) { // an owner is to keep one only
				passed[c.record.Worker] = err
			}
		}
	}
}

// maxFailures is how many saves may fail before one more ends Acquire.
const maxFailures = 2

// maxConflicts is how often Acquire tries to take a worker ID by one snapshot. A
// save costs a store less than all records do.
const maxConflicts = 8

// forget removes the errors that match target, and reports whether there were
// such.
func forget(errs map[int]error, target error) bool {
	n := len(errs)
	maps.DeleteFunc(errs, func(_ int, err error) bool { return errors.Is(err, target) })
	return len(errs) < n
}

// attempt is a record that would make a candidate ours.
type attempt struct {
	candidate
	window window
	wanted Record
	begun  time.Time
}

func (l *Lease) attempt(snap Snapshot, c candidate) (attempt, error) {
	r := c.record
	r.Version++
	r.Token, r.State, r.Reuse, r.Owner = rand.Text(), Held, max(r.Reuse, l.o.Reuse), l.o.Owner
	r.Host, r.PID = hostname(), os.Getpid()
	r.Window = l.o.Window
	now := l.o.now()
	w := window{seq: c.seq, from: l.o.begin(c.from, now), before: c.from}
	r = r.withWindow(w, later(c.from, now).Add(l.o.Window))
	a := attempt{c, w, r, time.Now()}
	if l.ownClock {
		return a, l.checkLeap(r.Worker, r.Bound(), snap.Now.Add(l.o.Window))
	}
	return a, nil
}

// take saves the record of an attempt.
func (l *Lease) take(ctx context.Context, a attempt) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	saved, err := replace(ctx, l.store, &l.o, a.record, a.wanted)
	if err == nil {
		l.hold(a, saved)
	}
	return err
}

// adopt takes what an attempt saved that had seemed to fail.
func (l *Lease) adopt(tried []attempt, snap Snapshot) bool {
	for _, a := range tried {
		for _, r := range snap.Records {
			if r.same(a.wanted) {
				l.hold(a, r)
				return true
			}
		}
	}
	return false
}

func (l *Lease) hold(a attempt, saved Record) {
	l.record.Store(&saved)
	a.window.to = saved.Bound()
	l.window.Store(&a.window)
	l.saved, l.base, l.moved, l.stats.Renewed = time.Now(), saved.Bound(), a.begun, a.begun
}

// load asks the store for its records.
func (l *Lease) load(ctx context.Context) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	return l.store.Load(ctx)
}

// locate adds to an error where the record is kept.
func (l *Lease) locate(err error) error {
	s, ok := l.store.(Locator)
	if e := new(LayoutError); ok && errors.As(err, &e) {
		e.Where = s.Locate(e.Worker)
	}
	return err
}

// awaitWindow waits for the clock to reach the window.
func (l *Lease) awaitWindow(ctx context.Context) error {
	from := l.window.Load().from
	deadline := time.Now().Add(2 * l.o.Window)
	for {
		now := l.o.now()
		wait := from.Sub(now)
		if wait <= 0 {
			return nil
		}
		if time.Now().Add(wait).After(deadline) {
			return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: from, Now: now}}
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// catchUp renews a lease whose first answer took so long that a renewal is due.
func (l *Lease) catchUp(ctx context.Context) (err error) {
	for range 3 {
		if time.Since(l.Stats().Renewed) <= l.o.Window/3 {
			return nil
		}
		if err = l.extend(ctx); err == nil {
			return nil
		}
	}
	return err
}

// abandon releases a lease that nobody has seen, as it was before.
func (l *Lease) abandon(ctx context.Context) error {
	from := l.window.Load().from
	l.stop = func() time.Time { return from }
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Window)
	defer cancel()
	return l.Release(ctx)
}

// Release ends the lease: the generator stops, and the worker ID is free for
// others from the first instant that it did not stamp. It returns the store's
// error when that could not be recorded; the lease has ended all the same, and
// the worker ID comes free by itself after a window. It may be called again.
// Where the lease was not given to NewLeased, its bound stays what it was.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	stop := l.stop
	l.mu.Unlock()
	var next time.Time
	if stop != nil {
		next = stop()
	}
	if err := l.end(ctx, ErrReleased); err != nil {
		return err
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if l.record.Load().State != Held || errors.Is(l.Err(), ErrLost) {
		return nil
	}
	return l.move(ctx, func(r Record) Record {
		r.State = Free
		if l.o.Reuse == ReuseOnce {
			r.State = Spent
		}
		w := l.window.Load()
		if stop != nil && !next.After(w.from) {
			next = w.before // nothing was stamped
		}
		if stop != nil && next.Before(r.Bound()) {
			r = r.withBound(r.ClockSeq, next)
		}
		return r
	})
}

// end closes Done and ends the renewal.
func (l *Lease) end(ctx context.Context, err error) error {
	l.finish(err)
	l.cancel()
	select {
	case <-l.ended:
		return nil
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
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
