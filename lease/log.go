package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// journal logs what an operator should know: each trouble once when it begins, and once
// when it is over. It is used by one goroutine at a time.
type journal struct {
	log    *slog.Logger
	lostAt time.Time // when the worker ID was found to be lost

	// Troubles that were logged and are not over:
	failing  time.Time // renewals or a replacement fail; the time is when the last successful renewal began
	stopped  time.Time // no IDs are issued since then
	away     time.Time // the shared store is away since then, and the local copy is used
	leapt    bool
	behind   bool
	expiring bool
	unusable map[int]bool // the worker IDs whose records are lost
}

// expiry is how long before the end of a layout the warning comes.
const expiry = 365 * 24 * time.Hour

func (j *journal) warn(l *Lease, worker int, msg string, args ...any) {
	j.log.Warn("lease: "+msg, append(l.place(worker), args...)...)
}

func (j *journal) info(l *Lease, worker int, msg string, args ...any) {
	j.log.Info("lease: "+msg, append(l.place(worker), args...)...)
}

// place returns the worker ID, its owner and, if the store knows it, the place of the
// record, as arguments for the logger.
func (l *Lease) place(worker int) []any {
	args := []any{"worker", worker, "owner", l.o.Owner}
	if at, ok := l.store.(Locator); ok && at.Locate(worker) != "" {
		args = append(args, "record", at.Locate(worker))
	}
	return args
}

// passed returns how long ago t was, rounded for people.
func passed(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func (j *journal) acquired(l *Lease) {
	g := l.Grant()
	j.info(l, g.Worker, "worker ID acquired", "window", l.o.Window, "until", g.To)
	j.checkAway(l)
	j.checkExpiry(l)
}

func (j *journal) released(l *Lease, r Record) {
	if r.Bound().IsZero() { // it was never used
		j.info(l, r.Worker, "worker ID released")
		return
	}
	j.info(l, r.Worker, "worker ID released", "free_from", r.Bound())
}

func (j *journal) lost(l *Lease, worker int, err error) {
	j.lostAt = time.Now()
	next := "another worker ID is taken in its place"
	switch {
	case l.o.OnLoss == Stop:
		next = "the lease has ended, as OnLoss says"
	case l.o.Reuse == ReuseKeep:
		next = "it is taken again when it is free, because Reuse says to keep it"
	}
	j.warn(l, worker, "worker ID lost", "until", l.Grant().To, "error", err, "next", next)
}

func (j *journal) replaced(l *Lease, lost int) {
	g := l.Grant()
	j.info(l, g.Worker, "worker ID replaced", "instead_of", lost, "until", g.To, "after", passed(j.lostAt))
	j.failing = time.Time{}
	j.checkWindow(l, nil)
	j.checkAway(l)
}

// unacquired is called when Acquire could not ask the store for a worker ID, and asks
// again.
func (j *journal) unacquired(l *Lease, err error) {
	j.log.Warn("lease: no worker ID could be acquired yet", "owner", l.o.Owner, "error", err, "next", "the store is asked again")
}

// unreplaced is called when the store could not be asked for a replacement, or a
// replacement has failed.
func (j *journal) unreplaced(l *Lease, err error) {
	j.checkClock(l, err)
	j.fails(l, err, "the lost worker ID could not be replaced yet")
	j.checkWindow(l, err)
	j.checkAway(l)
}

// renewed is called after each renewal.
func (j *journal) renewed(l *Lease, err error) {
	j.checkClock(l, err)
	switch {
	case err == nil && !j.failing.IsZero():
		j.info(l, l.Worker(), "renewals succeed again", "until", l.Grant().To, "after", passed(j.failing))
		j.failing = time.Time{}
	case err != nil && !errors.Is(err, ErrClockLeap):
		j.fails(l, l.Stats().LastError, "renewals fail")
	}
	j.checkWindow(l, err)
	j.checkAway(l)
	j.checkExpiry(l)
}

// fails logs msg if no renewal has succeeded for half a window.
func (j *journal) fails(l *Lease, err error, msg string) {
	since := l.renewed()
	if j.failing.IsZero() && time.Since(since) >= l.o.Window/2 {
		j.failing = since
		next := "the store is asked again"
		if l.o.now().Before(l.Grant().To) {
			next += "; IDs are issued until the window's end"
		}
		j.warn(l, l.Worker(), msg, "since", since.UTC(), "until", l.Grant().To, "error", err, "next", next)
	}
}

// checkWindow logs that no IDs are issued, if the window has ended and a renewal failed;
// and later that IDs are issued again.
func (j *journal) checkWindow(l *Lease, err error) {
	g := l.Grant()
	switch ended := !l.o.now().Before(g.To); {
	case ended && err != nil && j.stopped.IsZero():
		// If the clock leapt, it is past the window's end by more than the time that has
		// passed.
		j.stopped = later(time.Now().Add(g.To.Sub(l.o.now())), l.renewed())
		j.warn(l, g.Worker, "no IDs are issued: the window has ended", "since", g.To, "error", err,
			"next", "the renewal is tried again; IDs are issued again when it succeeds")
	case !ended && err == nil && l.horizon.behind.IsZero() && !j.stopped.IsZero():
		j.info(l, g.Worker, "IDs are issued again", "until", g.To, "after", passed(j.stopped))
		j.stopped = time.Time{}
	}
}

// checkAway logs that the shared store is away while a local copy is used, and that it is
// back.
func (j *journal) checkAway(l *Lease) {
	local, ok := l.store.(*localCopy)
	if !ok {
		return
	}
	switch why := local.whyAway(); {
	case why != nil && j.away.IsZero():
		j.away = time.Now()
		j.warn(l, l.Worker(), "the store is away, and the local copy is used", "copy", local.local.Locate(l.Worker()), "error", why,
			"next", "IDs are issued all the same; the store is told when it is back")
	case why == nil && !j.away.IsZero():
		j.info(l, l.Worker(), "the store is back", "after", passed(j.away))
		j.away = time.Time{}
	}
}

// checkClock logs that the clock leapt or stepped back, and that it is right again.
func (j *journal) checkClock(l *Lease, err error) {
	h := &l.horizon
	stepped := !h.behind.IsZero()
	switch leapt := errors.Is(err, ErrClockLeap); {
	case leapt && !j.leapt:
		j.leapt = true
		next := fmt.Sprintf("the leap is accepted when it has lasted for %v, or by AcceptLeap", l.o.MaxLeap)
		if h.ownClock {
			next = "IDs are issued again when this clock agrees with the store's, or after AcceptLeap"
		}
		j.warn(l, l.Worker(), "the clock leapt forward", "until", l.Grant().To, "error", err, "next", next)
	case !leapt && j.leapt && err == nil:
		j.leapt = false
		if !stepped {
			j.info(l, l.Worker(), "the clock is trusted again", "time", l.o.now().UTC())
		}
	}
	switch {
	case stepped && !j.behind:
		j.behind = true
		j.warn(l, l.Worker(), "the clock stepped back", "time", h.read.UTC(), "from", h.behind.UTC(), "by", h.behind.Sub(h.read).Round(time.Millisecond),
			"next", "the generator's policy says what becomes of calls until the clock has caught up")
	case !stepped && j.behind:
		j.behind = false
		j.info(l, l.Worker(), "the clock has caught up", "time", h.read.UTC())
	}
}

// missing logs the worker IDs of the range that are unusable: see Snapshot.Lost.
func (j *journal) missing(l *Lease, lost map[int]error) {
	for _, worker := range slices.Sorted(maps.Keys(lost)) {
		if worker < l.o.First || worker > l.o.last() || j.unusable[worker] || lost[worker] == errUnread {
			continue
		}
		if j.unusable == nil {
			j.unusable = map[int]bool{}
		}
		j.unusable[worker] = true
		j.warn(l, worker, "a worker ID is unusable: its record is lost, or something else is in its place", "error", lost[worker], "next", "others are taken; a person has to repair this one, as the error says")
	}
}

func (j *journal) checkExpiry(l *Lease) {
	if end := l.o.Layout.Expires(); !j.expiring && end.Sub(l.o.now()) < expiry {
		j.expiring = true
		j.warn(l, l.Worker(), "the layout will run out of time", "layout", l.o.Layout.String(), "end", end,
			"next", "no IDs are issued from then on: go over to another layout before")
	}
}
