package lease

import (
	"errors"
	"log/slog"
	"time"
)

// journal logs what an operator should know: what lasts once, and once when it is
// over. It is used by one goroutine at a time.
type journal struct {
	log *slog.Logger

	// These are being told:
	failing  bool // renewals, or a replacement
	leapt    bool
	behind   bool
	expiring bool
}

// expiry is how long before a layout runs out a warning is due.
const expiry = 365 * 24 * time.Hour

func (j *journal) warn(msg string, args ...any) { j.log.Warn("lease: "+msg, args...) }
func (j *journal) info(msg string, args ...any) { j.log.Info("lease: "+msg, args...) }

func (j *journal) acquired(l *Lease) {
	g := l.Grant()
	j.info("worker ID acquired", "worker", g.Worker, "owner", l.o.Owner, "from", g.From, "window", l.o.Window)
	j.checkExpiry(l)
}

func (j *journal) released(r Record) {
	j.info("worker ID released", "worker", r.Worker, "owner", r.Owner, "bound", r.Bound())
}

func (j *journal) lost(worker int, err error) {
	j.failing = false
	j.warn("worker ID lost", "worker", worker, "error", err)
}

func (j *journal) replaced(l *Lease, lost int) {
	j.failing = false
	g := l.Grant()
	j.info("worker ID replaced", "worker", g.Worker, "lost", lost, "owner", l.o.Owner, "from", g.From)
}

// unreplaced is told when the store could not be asked for a replacement, or a replacement
// has failed.
func (j *journal) unreplaced(l *Lease, err error) {
	j.checkClock(l, err)
	since := time.Since(l.renewed())
	if !j.failing && since >= l.o.Window/2 {
		j.failing = true
		j.warn("the lost worker ID could not be replaced yet", "lost", l.Worker(), "for", since, "error", err)
	}
}

// renewed is told after each renewal.
func (j *journal) renewed(l *Lease, err error) {
	j.checkClock(l, err)
	since := time.Since(l.renewed())
	switch {
	case err == nil && j.failing:
		j.failing = false
		j.info("renewals succeed again", "worker", l.Worker())
	case err != nil && !errors.Is(err, ErrClockLeap) && !j.failing && since >= l.o.Window/2:
		j.failing = true
		j.warn("renewals fail", "worker", l.Worker(), "for", since, "until", l.Grant().To, "error", l.Stats().LastError)
	}
	j.checkExpiry(l)
}

// checkClock tells of a clock that leapt or stepped back.
func (j *journal) checkClock(l *Lease, err error) {
	switch leapt := errors.Is(err, ErrClockLeap); {
	case leapt && !j.leapt:
		j.leapt = true
		j.warn("the clock leapt forward", "worker", l.Worker(), "error", err)
	case !leapt && j.leapt && err == nil:
		j.leapt = false
		j.info("the clock is trusted again", "worker", l.Worker(), "time", l.o.now())
	}
	switch was := l.horizon.behind; {
	case !was.IsZero() && !j.behind:
		j.behind = true
		j.warn("the clock stepped back", "worker", l.Worker(), "time", l.horizon.read, "from", was)
	case was.IsZero() && j.behind:
		j.behind = false
		j.info("the clock has caught up", "worker", l.Worker(), "time", l.horizon.read)
	}
}

func (j *journal) checkExpiry(l *Lease) {
	if end := l.o.Layout.Expires(); !j.expiring && end.Sub(l.o.now()) < expiry {
		j.expiring = true
		j.warn("the layout will run out of time", "layout", l.o.Layout.String(), "end", end)
	}
}
