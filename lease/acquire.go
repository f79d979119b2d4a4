package lease

import (
	"context"
	"crypto/rand"
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

// Acquire takes a worker ID for opts.Owner, and keeps it until Release. ctx bounds
// the acquisition only: when it is done later, the lease goes on. When Acquire
// returns, the clock has reached the window.
//
// Of the worker IDs whose bound has passed, it prefers one that the owner had
// before, then the smallest (or, if others were quicker, one of the smallest).
// If no bound has passed, it takes a worker ID whose bound passes within a
// window, and waits for that. While all are held it waits for up to a window
// and a half, in case that one is released or its holder is dead, and then
// returns an [*ExhaustedError]. If only bounds further in the future are left,
// because the clock was set back, it returns a [*snowflake.ClockBackwardError]
// that says by how much. Other errors match ErrInvalidOptions,
// snowflake.ErrInvalidLayout, ErrBadRecord, ErrLayout, ErrWiped, ErrClockLeap,
// ctx's error, or are the store's.
//
// A store that is away, or does not answer, is asked again until ctx is done or, if
// ctx has no deadline, for a minute: if a connection is refused, breaks or times out, or
// the error matches [ErrAway]. All other errors are returned at once.
//
// What Acquire took and does not use, it gives back, in the background if the store is
// slow.
func Acquire(ctx context.Context, s Store, opts *Options) (*Lease, error) {
	return acquireOn(ctx, osDisk{}, s, opts)
}

// acquireOn is Acquire with LocalCopy on the given disk.
func acquireOn(ctx context.Context, d disk, s Store, opts *Options) (*Lease, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidOptions)
	}
	o, err := opts.withDefaults()
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

// acquire is obtain that asks a store again that is away. A time-out does not hide what
// was wrong before it.
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

// mayMend reports whether an error of a store may be over when the store is asked again.
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
	// A refusal by TLS is an OpError, too, of another Op.
	op := new(net.OpError)
	return isTimeout(err) || errors.As(err, &op) && slices.Contains([]string{"dial", "read", "write"}, op.Op)
}

// obtain makes a worker ID ours, and waits for the clock to reach its window. If the
// worker ID is lost meanwhile it tries again. What it took and does not use is given back.
func (l *Lease) obtain(ctx context.Context) error {
	for {
		if l.gaveBack != nil { // so that it can be taken again
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

// settle waits for the clock to reach the window. It renews the lease meanwhile, and
// if the store took long to answer.
func (l *Lease) settle(ctx context.Context) error {
	every := l.o.Window / 3
	deadline := time.Now().Add(2 * l.o.Window)
	failing := time.Time{} // since when renewals have failed
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
	loaded    bool          // snap is not to be loaded again
	passed    map[int]error // the worker IDs that others were quicker at, or whose records could not be saved
	conflicts int           // how often others were quicker; after each there is more to choose from
	failures  []error       // of saves, other than conflicts
	tried     []attempt     // the saves that seem not to have been made, and what was made in vain
	locks     locks
}

const (
	// maxFailures is how many saves may fail before one more ends a search.
	maxFailures = 2

	// maxConflicts is how often a search tries to take a worker ID by one
	// snapshot. A save costs a store less than all records do.
	maxConflicts = 8
)

// find makes one worker ID ours. It waits for a free one for up to a window and a
// half, a window for the answer to each save, and longer for all records.
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

// load asks the store for its records. If the answer does not come, it asks again
// with twice the patience, for crowded in all.
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
	if err != nil {
		return err
	}
	l.log.missing(l, snap.Lost)
	snap.Records = l.withLost(snap.Records)
	s.snap, s.loaded, l.horizon.ownClock = snap, true, snap.OwnClock
	return nil
}

// crowded is how long a search goes on asking for the records of a store that does not
// answer, as when a thousand processes start at once; and for how long Acquire tries
// again if its context has no deadline.
const crowded = time.Minute

func (s *search) snapshot(ctx context.Context, patience time.Duration) (Snapshot, error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snap, err := s.l.store.Load(context.WithValue(patient, beforeSave{}, true))
	if err = unanswered(ctx, patient, err); err != nil {
		s.l.tripped(err)
	}
	return snap, err
}

// withLost adds to records what this lease knows of the worker IDs that it lost. If
// such a record was removed, the store no longer knows what was stamped under it.
func (l *Lease) withLost(records []Record) []Record {
	for _, worker := range slices.Sorted(maps.Keys(l.lost)) {
		i := slices.IndexFunc(records, func(r Record) bool { return r.Worker == worker })
		if i < 0 {
			i = len(records)
			records = append(records, Record{Worker: worker, Layout: l.o.Layout, State: Free})
		}
		is, lost := records[i], l.lost[worker]
		for seq, bound := range lost.Bounds {
			if bound.After(is.bound(seq)) { // and who stamped up to it is not known either
				records[i].Forgotten = later(records[i].Forgotten, bound)
			}
		}
		records[i] = records[i].withBoundsOf(lost)
	}
	return records
}

// because adds to the error of a context what was wrong before.
func (s *search) because(err error) error {
	if n := len(s.failures); n > 0 && isTimeout(err) {
		return once(fmt.Errorf("%w: %w", s.failures[n-1], err))
	}
	return err
}

// adopt takes a record whose Save returned an error but was made.
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

// wait waits until a worker ID may come free, after choose found none.
func (s *search) wait(ctx context.Context, wait time.Duration, none error) error {
	s.loaded = false
	if forget(s.passed, ErrConflict) {
		return nil
	}
	o := &s.l.o
	wait = min(wait, o.Window/4) // one may be released, too
	if wait <= 0 || time.Since(s.begun)+wait > o.Window+o.Window/2 {
		return s.locate(none)
	}
	if ended := sleep(ctx, wait); ended != nil {
		return fmt.Errorf("%w: %w", s.locate(none), ended)
	}
	return nil
}

// forget removes the errors that match target, and reports whether there were
// any.
func forget(errs map[int]error, target error) bool {
	n := len(errs)
	maps.DeleteFunc(errs, func(_ int, err error) bool { return errors.Is(err, target) })
	return len(errs) < n
}

// locate adds to an error where the record is kept.
func (s *search) locate(err error) error {
	at, ok := s.l.store.(Locator)
	if e := new(LayoutError); ok && errors.As(err, &e) {
		e.Where = at.Locate(e.Worker)
	}
	return err
}

// attempt is a record that would make a candidate ours.
type attempt struct {
	candidate
	window window
	wanted Record
	begun  time.Time
	unsure bool // its save may be made yet
}

func (s *search) attempt(c candidate) (attempt, error) {
	l := s.l
	now, begun := l.o.now(), time.Now()
	if err := l.checkClock(s.snap, c.record.Worker, now, begun); err != nil {
		return attempt{}, err
	}
	r := c.record
	r.Version++
	r.Token, r.State, r.Reuse, r.Owner = rand.Text(), Held, max(r.Reuse, l.o.Reuse), l.o.Owner
	r.Host, r.PID = hostname(), os.Getpid()
	r.Window = l.o.Window
	w := window{seq: c.seq, from: l.o.begin(c.from, now), before: c.from}
	return attempt{c, w, r.withWindow(w, later(c.from, now).Add(l.o.Window)), begun, false}, nil
}

// save saves the record of an attempt.
func (s *search) save(ctx context.Context, a attempt) (Record, error) {
	patient, cancel := context.WithTimeout(ctx, s.l.searchTrip())
	defer cancel()
	saved, err := replace(patient, s.l.store, &s.l.o, a.record, a.wanted)
	if err = unanswered(ctx, patient, err); err != nil && !errors.Is(err, ErrConflict) {
		s.l.tripped(err)
	}
	return saved, err
}

// missed draws the conclusions from a save that failed. If the search is to end, it
// returns the error to end with.
func (s *search) missed(ctx context.Context, a attempt, err error) error {
	a.unsure = !errors.Is(err, ErrConflict) && !errors.Is(err, ErrBadRecord)
	s.tried = append(s.tried, a) // a client that asks again by itself can conflict with itself
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
		s.conflicts++ // a crowd may be what makes the store slow
	}
	s.failures = append(s.failures, err)
	s.loaded = false
	if !keeps || errors.Is(err, ErrBadRecord) { // an owner is to keep one only
		s.passed[a.record.Worker] = err
	}
	return nil
}

// hold makes the worker ID of an attempt ours, whose record was saved.
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

// farewell is how long an Acquire that failed waits until what it took is given
// back. After that, giving it back goes on without it.
const farewell = 100 * time.Millisecond

// none is no worker ID.
const none = -1

// giveBack frees, in the background, the worker IDs that were taken in vain, other than
// one that is used. (An older attempt to take the same one is not made any more.) What may
// have been taken, or may be yet, is looked for again and again. The channel that it
// returns is closed after the first look.
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

// free frees the worker ID of an attempt if that was made: nothing was stamped, so its
// record is again what it was. It reports whether there is nothing more to do. If it never
// does, the worker ID comes free by itself after a window.
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
			return true // it is not made any more
		}
	}
	return !a.unsure
}

// unanswered returns err, and says that the store did not answer in time if that is
// why: patient has ended, and either ctx, which it was made of, has not, or err says no
// more than that ctx has.
func unanswered(ctx, patient context.Context, err error) error {
	if err == nil || ctx.Err() != nil && err != ctx.Err() || patient.Err() == nil || !isTimeout(err) {
		return err
	}
	return once(fmt.Errorf("lease: the store did not answer in time: %w", err))
}

// isTimeout reports whether err says no more than that time was up.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
