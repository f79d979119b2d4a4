package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// journal logs what an operator should know: what lasts once, and once when it is
// over. It is used by one goroutine at a time.
type journal struct {
	log    *slog.Logger
	lostAt time.Time // when the loss of the worker ID was found

	// These are being told:
	failing  time.Time // renewals or a replacement fail: when the last renewal that succeeded was begun
	stopped  time.Time // no IDs are issued: since when
	away     time.Time // the shared store is away, beside a local copy: since when
	leapt    bool
	behind   bool
	expiring bool
	unusable map[int]bool // the worker IDs whose records are lost
}

// expiry is how long before a layout runs out a warning is due.
const expiry = 365 * 24 * time.Hour

// warn and info log msg, which worker ID and which record it is about, and args.
func (j *journal) warn(l *Lease, worker int, msg string, args ...any) {
	j.log.Warn("lease: "+msg, append(l.place(worker), args...)...)
}

func (j *journal) info(l *Lease, worker int, msg string, args ...any) {
	j.log.Info("lease: "+msg, append(l.place(worker), args...)...)
}

// place says which worker ID is meant and, if the store says it, where its record is.
func (l *Lease) place(worker int) []any {
	args := []any{"worker", worker, "owner", l.o.Owner}
	if at, ok := l.store.(Locator); ok && at.Locate(worker) != "" {
		args = append(args, "record", at.Locate(worker))
	}
	return args
}

// passed returns how long ago t was, as a person wants it.
func passed(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func (j *journal) acquired(l *Lease) {
	g := l.Grant()
	j.info(l, g.Worker, "worker ID acquired", "window", l.o.Window, "until", g.To)
	j.checkAway(l)
	j.checkExpiry(l)
}

func (j *journal) released(l *Lease, r Record) {
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

// unacquired is told when Acquire could not ask the store for a worker ID, and asks again.
func (j *journal) unacquired(l *Lease, err error) {
	j.log.Warn("lease: no worker ID could be acquired yet", "owner", l.o.Owner, "error", err, "next", "the store is asked again")
}

// unreplaced is told when the store could not be asked for a replacement, or a replacement
// has failed.
func (j *journal) unreplaced(l *Lease, err error) {
	j.checkClock(l, err)
	j.fails(l, err, "the lost worker ID could not be replaced yet")
	j.checkWindow(l, err)
	j.checkAway(l)
}

// renewed is told after each renewal.
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

// fails tells msg if no renewal has succeeded for half a window.
func (j *journal) fails(l *Lease, err error, msg string) {
	since := l.renewed()
	if j.failing.IsZero() && time.Since(since) >= l.o.Window/2 {
		j.failing = since
		next := "it is tried again"
		if l.o.now().Before(l.Grant().To) {
			next += "; IDs are issued until the window's end"
		}
		j.warn(l, l.Worker(), msg, "since", since.UTC(), "until", l.Grant().To, "error", err, "next", next)
	}
}

// checkWindow tells that no IDs are issued because the window has ended, though it was
// tried to renew it, and when they are issued again.
func (j *journal) checkWindow(l *Lease, err error) {
	g := l.Grant()
	switch ended := !l.o.now().Before(g.To); {
	case ended && err != nil && j.stopped.IsZero():
		j.stopped = time.Now()
		j.warn(l, g.Worker, "no IDs are issued: the window has ended", "since", g.To, "error", err,
			"next", "it is tried again; IDs are issued again when that succeeds")
	case !ended && err == nil && l.horizon.behind.IsZero() && !j.stopped.IsZero():
		j.info(l, g.Worker, "IDs are issued again", "until", g.To, "after", passed(j.stopped))
		j.stopped = time.Time{}
	}
}

// checkAway tells of a shared store that is away, while a local copy is used.
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

// checkClock tells of a clock that leapt or stepped back.
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

// missing tells of the worker IDs of the range whose records the store has lost.
func (j *journal) missing(l *Lease, lost map[int]error) {
	for _, worker := range slices.Sorted(maps.Keys(lost)) {
		if worker < l.o.First || worker > l.o.last() || j.unusable[worker] {
			continue
		}
		if j.unusable == nil {
			j.unusable = map[int]bool{}
		}
		j.unusable[worker] = true
		j.warn(l, worker, "a worker ID is unusable: its record is lost", "error", lost[worker], "next", "others are taken; this one has to be mended by hand, as the error says")
	}
}

func (j *journal) checkExpiry(l *Lease) {
	if end := l.o.Layout.Expires(); !j.expiring && end.Sub(l.o.now()) < expiry {
		j.expiring = true
		j.warn(l, l.Worker(), "the layout will run out of time", "layout", l.o.Layout.String(), "end", end,
			"next", "no IDs are issued from then on: go over to another layout before")
	}
}
