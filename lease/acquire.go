package lease

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Acquire takes a worker ID for opts.Owner, and keeps it until Release. ctx bounds the
// acquisition only: the lease goes on after ctx is done. If opts is nil, all options have
// their defaults.
//
// A worker ID is free from its bound on, the time up to which its earlier holders may have
// issued IDs. Among the free ones Acquire prefers a worker ID that the owner had before,
// then the smallest (or, if other processes were quicker, one of the smallest). If no bound
// has passed yet, it takes a worker ID whose bound passes within a window (Options.Window),
// and waits for that. So when Acquire returns, the clock has reached the time from which
// the lease may issue IDs.
//
// If all worker IDs are held, Acquire waits for up to a window and a half, in case one is
// released or its holder is dead. Then it returns an [*ExhaustedError]. If all bounds are
// further in the future, because the clock was set back, it returns a
// [*snowflake.ClockBackwardError] that says by how much. Other errors match
// ErrInvalidOptions, snowflake.ErrInvalidLayout, ErrBadRecord, ErrLayout, ErrWiped,
// ErrClockLeap or ctx's error, or are the store's.
//
// If the store is away, Acquire asks again until ctx is done or, if ctx has no deadline,
// for one to two minutes. It takes a store to be away if a connection is refused, breaks or
// times out, or if the error matches [ErrAway]. It returns all other errors at once.
//
// If Acquire fails, it frees the worker IDs that it took on the way; if the store is slow,
// it does so in the background.
func Acquire(ctx context.Context, s Store, opts *Options) (*Lease, error) {
	return acquireOn(ctx, hostDisk, s, opts)
}

// acquireOn is Acquire with the file system of LocalCopy as a parameter, for tests.
func acquireOn(ctx context.Context, d disk, s Store, opts *Options) (*Lease, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidOptions)
	}
	o, err := opts.withDefaults(defaultWindow(s))
	if err != nil {
		return nil, err
	}
	if o.LocalCopy != "" {
		if s, err = withLocalCopy(ctx, d, s, &o); err != nil {
			return nil, err
		}
	}
	l := newLease(s, o)
	if err := l.acquire(ctx); err != nil {
		l.cancel()
		return nil, err
	}
	l.publish()
	l.log.acquired(l)
	go l.run(l.ctx)
	return l, nil
}

// acquire is obtain, tried again while the store is away. If the last error is a time-out,
// it also returns the error before it.
func (l *Lease) acquire(ctx context.Context) error {
	begun := time.Now()
	_, bounded := ctx.Deadline()
	var cause error
	for backoff := l.o.Window / 100; ; backoff = min(2*backoff, l.o.Window/3) {
		err := l.obtain(ctx)
		switch {
		case err == nil:
			return nil
		case cause == nil && ctx.Err() == nil && mayMend(err):
			l.log.unacquired(l, err)
			cause = err
		case !isTimeout(err):
			cause = err
		case cause != nil:
			err = fmt.Errorf("%w: %w", err, cause)
		}
		if ctx.Err() != nil || !mayMend(err) || !bounded && time.Since(begun) >= crowded {
			return err
		}
		if ended := sleep(ctx, jittered(backoff)); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// mayMend reports whether the store may answer without this error if it is asked again.
func mayMend(err error) bool {
	for _, lasting := range []error{ErrBadRecord, ErrWiped, ErrLayout, ErrInvalidOptions} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	for _, passing := range []error{ErrAway, io.EOF, io.ErrUnexpectedEOF, driver.ErrBadConn} {
		if errors.Is(err, passing) {
			return true
		}
	}
	// TLS refusals are OpErrors too, with another Op.
	op := new(net.OpError)
	return isTimeout(err) || errors.As(err, &op) && slices.Contains([]string{"dial", "read", "write"}, op.Op)
}

// obtain takes a worker ID, and waits until the clock has reached its window. If the worker
// ID is lost meanwhile, obtain tries again. It frees what it took and does not use.
func (l *Lease) obtain(ctx context.Context) error {
	for {
		if l.gaveBack != nil { // then the worker ID can be taken again
			_ = nap(ctx, l.o.patience(), l.gaveBack)
		}
		s := search{l: l, begun: time.Now(), passed: map[int]error{}, locks: locks{}}
		a, err := s.find(ctx)
		if err == nil {
			if err = s.because(l.settle(ctx)); err == nil {
				s.giveBack(l.ctx, a.record.Worker)
				return nil
			}
			s.tried = append(s.tried, a)
		}
		l.record.Store(nil)
		l.gaveBack = s.giveBack(context.WithoutCancel(ctx), none)
		if !errors.Is(err, ErrLost) || ctx.Err() != nil {
			_ = nap(context.WithoutCancel(ctx), farewell, l.gaveBack)
			if errors.Is(err, ErrLost) {
				return ctx.Err()
			}
			return err
		}
	}
}

// settle waits until the clock has reached the window. It renews the lease meanwhile, and
// also if the store took long to answer.
func (l *Lease) settle(ctx context.Context) error {
	every := l.o.Window / 3
	deadline := time.Now().Add(2 * l.o.Window)
	failing := time.Time{} // when the first of the failed renewals was
	for {
		now := l.o.now()
		wait := l.window.from.Sub(now)
		if wait > 0 && time.Now().Add(wait).After(deadline) {
			return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: l.window.from, Now: now}}
		}
		pause := every - time.Since(l.renewed())
		if pause <= 0 {
			begun := time.Now()
			err := l.renew(ctx)
			if err == nil {
				failing = time.Time{}
				continue
			}
			if failing.IsZero() {
				failing = begun
			}
			if errors.Is(err, ErrLost) || ctx.Err() != nil || time.Since(failing) >= l.o.patience() {
				return err
			}
			pause = every / 8
		} else if wait <= 0 {
			return nil
		} else {
			pause = min(pause, wait)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// search looks for a worker ID that can be taken.
type search struct {
	l     *Lease
	begun time.Time

	snap      Snapshot
	loaded    bool          // snap is fresh enough: do not load it again
	passed    map[int]error // the worker IDs that other processes took first, or whose records could not be saved
	conflicts int           // how often other processes were quicker; after each time there is more to choose from
	failures  []error       // of saves, other than conflicts
	tried     []attempt     // the saves that failed but may still be made, and the saves that were made for nothing
	locks     locks
	whole     bool // all records are needed, not only some
}

// choice is how many worker IDs a search needs to choose from, among many processes that
// start at once.
const choice = 32

// some returns how many records the search needs. An owner that keeps its worker ID needs
// all of them, and so does a search for what was saved without an answer.
func (s *search) some() *some {
	o := &s.l.o
	if s.whole = s.whole || o.Reuse != ReuseAny || len(s.tried) > 0; s.whole {
		return nil
	}
	return &some{o.First, o.last(), choice}
}

const (
	// maxFailures is how many saves may fail; the next failure ends the search.
	maxFailures = 2

	// maxConflicts is how often a search tries to take a worker ID by one snapshot. A save
	// is cheaper for the store than reading all records.
	maxConflicts = 8
)

// find takes one worker ID. It waits for a free one for up to a window and a half. It waits
// for the answer to each save for up to a window, and longer for the answer with all
// records.
func (s *search) find(ctx context.Context) (attempt, error) {
	for {
		if !s.loaded {
			if err := s.load(ctx); err != nil {
				return attempt{}, s.because(err)
			}
			if a, ok := s.adopt(); ok {
				return a, nil
			}
		}
		c, wait, err := choose(&s.l.o, s.snap, s.passed, s.conflicts)
		if err != nil && !s.whole {
			s.whole, s.loaded = true, false
			continue
		}
		if err != nil {
			if err := s.wait(ctx, wait, err); err != nil {
				return attempt{}, err
			}
			continue
		}
		a, err := s.attempt(c)
		if err != nil {
			return a, err
		}
		saved, err := s.save(ctx, a)
		if err == nil {
			s.l.hold(a, saved)
			return a, nil
		}
		if err := s.missed(ctx, a, err); err != nil {
			return a, err
		}
	}
}

// load asks the store for its records. If the answer does not come, it asks again with
// twice the patience, for crowded in total.
func (s *search) load(ctx context.Context) error {
	l := s.l
	snap, err := s.snapshot(ctx, l.searchTrip())
	for patience := 2 * l.searchTrip(); isTimeout(err) && ctx.Err() == nil; patience *= 2 {
		left := crowded - time.Since(s.begun)
		if left <= 0 {
			break
		}
		snap, err = s.snapshot(ctx, min(patience, left))
	}
	if errors.Is(err, errBegunAnew) { // obtain tries again
		l.mu.Lock()
		l.store = again(l.store)
		l.mu.Unlock()
	}
	if err != nil {
		return err
	}
	l.log.missing(l, snap.Lost)
	snap.Records = l.withLost(snap)
	s.snap, s.loaded, l.horizon.ownClock = snap, true, snap.OwnClock
	return nil
}

// crowded is for how long a search asks again for the records of a store that does not
// answer, such as when a thousand processes start at once. It is also for how long Acquire
// tries again if its context has no deadline.
const crowded = time.Minute

func (s *search) snapshot(ctx context.Context, patience time.Duration) (Snapshot, error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snap, err := s.l.store.Load(context.WithValue(patient, beforeSave{}, s.some()))
	if err = unanswered(ctx, patient, err); err != nil {
		s.l.tripped(err)
	}
	return snap, err
}

// withLost returns snap's records, raised to the bounds that this lease knows of the worker
// IDs that it lost. If such a record was removed, the store no longer knows these bounds.
func (l *Lease) withLost(snap Snapshot) []Record {
	records := snap.Records
	for _, worker := range slices.Sorted(maps.Keys(l.lost)) {
		if snap.Lost[worker] != nil { // nobody gets it
			continue
		}
		i := slices.IndexFunc(records, func(r Record) bool { return r.Worker == worker })
		if i < 0 {
			i = len(records)
			records = append(records, Record{Worker: worker, Layout: l.o.Layout, State: Free})
		}
		is, lost := records[i], l.lost[worker]
		for seq, bound := range lost.Bounds {
			if bound.After(is.bound(seq)) { // and nobody knows who stamped up to it
				records[i].Forgotten = later(records[i].Forgotten, bound)
			}
		}
		records[i] = records[i].withBoundsOf(lost)
	}
	return records
}

// because adds the last failure of a save to err, which is a context's.
func (s *search) because(err error) error {
	if n := len(s.failures); n > 0 && isTimeout(err) {
		return once(fmt.Errorf("%w: %w", s.failures[n-1], err))
	}
	return err
}

func (s *search) adopt() (attempt, bool) {
	for _, a := range s.tried {
		for _, r := range s.snap.Records {
			if r.same(a.wanted) {
				s.l.hold(a, r)
				return a, true
			}
		}
	}
	return attempt{}, false
}

// wait waits until a worker ID may come free. none is the error to return if ctx ends
// first.
func (s *search) wait(ctx context.Context, wait time.Duration, none error) error {
	s.loaded = false
	if forget(s.passed, ErrConflict) {
		return nil
	}
	o := &s.l.o
	wait = min(wait, o.Window/4) // a holder may also release its worker ID
	if wait <= 0 || time.Since(s.begun)+wait > o.Window+o.Window/2 {
		return s.locate(none)
	}
	if ended := sleep(ctx, wait); ended != nil {
		return fmt.Errorf("%w: %w", s.locate(none), ended)
	}
	return nil
}

// forget removes the errors that match target, and reports whether there were any.
func forget(errs map[int]error, target error) bool {
	n := len(errs)
	maps.DeleteFunc(errs, func(_ int, err error) bool { return errors.Is(err, target) })
	return len(errs) < n
}

// locate adds the place of the record to an error.
func (s *search) locate(err error) error {
	at, ok := s.l.store.(Locator)
	if e := new(LayoutError); ok && errors.As(err, &e) {
		e.Where = at.Locate(e.Worker)
	}
	return err
}

// attempt is a record whose save takes a worker ID.
type attempt struct {
	candidate
	window window
	wanted Record
	begun  time.Time
	unsure bool // its save failed, but may still be made
}

func (s *search) attempt(c candidate) (attempt, error) {
	l := s.l
	now, begun := l.o.now(), time.Now()
	if err := l.checkClock(s.snap, c.record.Worker, now, begun); err != nil {
		return attempt{}, err
	}
	r := c.record
	r.Version++
	r.Token, r.State, r.Reuse, r.Owner = randomText(), Held, max(r.Reuse, l.o.Reuse), l.o.Owner
	r.Host, r.PID = hostname(), os.Getpid()
	r.Window = l.o.Window
	w := window{seq: c.seq, from: l.o.begin(c.from, now), before: c.from}
	return attempt{c, w, r.withWindow(w, later(c.from, now).Add(l.o.Window)), begun, false}, nil
}

func (s *search) save(ctx context.Context, a attempt) (Record, error) {
	patient, cancel := context.WithTimeout(ctx, s.l.searchTrip())
	defer cancel()
	saved, err := replace(patient, s.l.store, &s.l.o, a.record, a.wanted)
	if err = unanswered(ctx, patient, err); err != nil && !errors.Is(err, ErrConflict) {
		s.l.tripped(err)
	}
	return saved, err
}

// missed handles a save that failed. It returns an error if the search is to end.
func (s *search) missed(ctx context.Context, a attempt, err error) error {
	a.unsure = !errors.Is(err, ErrConflict) && !errors.Is(err, ErrBadRecord)
	s.tried = append(s.tried, a) // the conflict may be with this very save, if the client of the store sent it twice
	keeps := s.l.o.Reuse == ReuseKeep
	switch {
	case errors.Is(err, ErrConflict):
		s.conflicts++
		s.passed[a.record.Worker] = err
		if errors.Is(err, errLocked) {
			s.tried = s.tried[:len(s.tried)-1] // it was not made
			s.passed[a.record.Worker] = s.locks.found(a.record.Worker, err, s.l.o.patience())
			if err := sleep(ctx, minBackoff); err != nil {
				return s.because(err)
			}
		}
		if s.conflicts%maxConflicts == 0 || s.l.o.Reuse != ReuseAny {
			s.loaded = !forget(s.passed, ErrConflict)
		}
		return nil
	case ctx.Err() != nil:
		return s.because(err)
	case len(s.failures) == maxFailures:
		return s.failures[0]
	}
	if isTimeout(err) && !keeps {
		s.conflicts++ // the store may be slow because of a crowd
	}
	s.failures = append(s.failures, err)
	s.loaded = false
	if !keeps || errors.Is(err, ErrBadRecord) { // an owner that keeps its worker ID is to have only one
		s.passed[a.record.Worker] = err
	}
	return nil
}

// hold takes over the worker ID of an attempt whose record was saved.
func (l *Lease) hold(a attempt, saved Record) {
	l.op <- struct{}{}
	defer l.unlock()
	l.record.Store(&saved)
	l.window, l.granted = a.window, false
	l.window.to = saved.Bound()
	l.unknown, l.tried, l.saved = false, nil, time.Now()
	l.horizon.reached(saved.Bound(), a.begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Renewed = a.begun
}

// farewell is for how long an Acquire that failed waits until its worker IDs are freed.
// After that, they are freed in the background.
const farewell = 100 * time.Millisecond

// none stands for no worker ID.
const none = -1

// giveBack frees, in the background, the worker IDs that the search took, except used. (An
// older attempt to take the used worker ID cannot be made any more.) For a save that may
// still be made, it looks again and again. The channel is closed after the first look.
func (s *search) giveBack(ctx context.Context, used int) <-chan struct{} {
	looked := make(chan struct{})
	tried := slices.DeleteFunc(s.tried, func(a attempt) bool { return a.record.Worker == used })
	if len(tried) == 0 {
		close(looked)
		return looked
	}
	o, store := &s.l.o, s.l.store
	look := func(ctx context.Context) {
		tried = slices.DeleteFunc(tried, func(a attempt) bool { return free(ctx, store, a) })
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, o.patience())
		defer cancel()
		look(ctx)
		close(looked)
		for pause := o.patience() / 8; len(tried) > 0 && sleep(ctx, pause) == nil; pause *= 2 {
			look(ctx)
		}
	}()
	return looked
}

// free frees the worker ID of an attempt if its record was stored: nothing was stamped, so
// the record becomes again what it was. It reports whether there is nothing more to do. If
// free never succeeds, the worker ID comes free by itself after a window.
func free(ctx context.Context, s Store, a attempt) (done bool) {
	snap, err := s.LoadWorker(ctx, a.wanted.Worker)
	if err != nil {
		return false
	}
	for _, r := range snap.Records {
		if r.Token == a.wanted.Token && r.State != Spent {
			r.Version++
			r.State, r.Owner, r.Reuse = Free, a.record.Owner, a.record.Reuse
			_, err := s.Save(ctx, r.withBound(a.window.seq, a.window.before))
			return err == nil
		}
		if r.Version >= a.wanted.Version {
			return true // its save can no longer be made
		}
	}
	return !a.unsure
}

// unanswered returns err. It adds that the store did not answer in time if patient has
// ended and its parent ctx has not, or if err says no more than ctx's error.
func unanswered(ctx, patient context.Context, err error) error {
	if err == nil || ctx.Err() != nil && err != ctx.Err() || patient.Err() == nil || !isTimeout(err) {
		return err
	}
	return once(fmt.Errorf("lease: the store did not answer in time: %w", err))
}

// isTimeout reports whether err says only that time was up.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
