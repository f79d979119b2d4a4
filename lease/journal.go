package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/cause"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// journal logs what an operator should know: each problem once when it begins, and once when it is
// over. It is used by one goroutine at a time.
type journal struct {
	log    *slog.Logger
	lostAt time.Time // when the worker ID was found to be lost

	// Problems that were logged and are not over. A zero value means that there is none.

	failing time.Time // when the last renewal before the failing ones began
	cause   string    // why they failed, as it was logged last,
	logged  time.Time // and when that was
	cut     time.Time // after an overlap or a clone, the end of the times that were stamped
	stopped time.Time // the time since which no IDs have been issued
	away    time.Time // the time since which the store has been away, and the local copy used

	leapt    bool // the clock leapt forward
	behind   bool // the clock stepped back
	expiring bool // the layout will run out of time
}

// expiry is the time from the warning to the end of a layout.
const expiry = 365 * 24 * time.Hour

func (j *journal) warn(l *Lease, worker int, msg string, args ...any) {
	j.write(l, slog.LevelWarn, worker, msg, args...)
}

func (j *journal) info(l *Lease, worker int, msg string, args ...any) {
	j.write(l, slog.LevelInfo, worker, msg, args...)
}

// write logs a message. Durations are texts, because JSON would have them in nanoseconds.
func (j *journal) write(l *Lease, level slog.Level, worker int, msg string, args ...any) {
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = d.String()
		}
	}
	place := []any{"worker", worker, "owner", l.o.Owner}
	if worker == none {
		place = place[2:]
	}
	j.log.Log(context.Background(), level, "lease: "+msg, append(place, args...)...)
}

// ago returns how long ago t was, rounded for people.
func ago(t time.Time) time.Duration { return machine.Since(t).Round(time.Millisecond) }

// until returns the end of the times that were or may be stamped.
func (j *journal) until(l *Lease) time.Time {
	if g := l.Grant(); j.cut.IsZero() || g.From.Before(g.To) {
		return g.To
	}
	return j.cut
}

func (j *journal) acquired(l *Lease) {
	g := l.Grant()
	j.info(l, g.Worker, "worker ID acquired", "window", l.o.Window, "until", g.To)
	j.checkExpiry(l)
	j.checkAway(l)
}

// unguarded logs that the machine's device for clones cannot be used.
func (j *journal) unguarded(l *Lease, err error) {
	j.info(l, l.Worker(), "the machine's device for clones cannot be used", "path", vmclock.Device, "error", err,
		"next", "IDs are issued all the same, but clones of this machine go unnoticed; let the process read the device")
}

// settings logs the settings with which the store's engine may lose acknowledged writes. It uses
// nothing else of j, so it may be called by a goroutine of its own.
func (j *journal) settings(l *Lease, unsafe []string, err error) {
	if err != nil {
		j.info(l, l.Worker(), "the store's settings cannot be read", "error", err,
			"next", "IDs are issued all the same; docs/stores.md says which settings the store needs")
	}
	if len(unsafe) > 0 {
		j.warn(l, l.Worker(), "the store may lose acknowledged writes, and then IDs may repeat",
			"settings", strings.Join(unsafe, ", "),
			"next", "IDs are issued all the same; change the settings, as docs/stores.md says")
	}
}

func (j *journal) released(l *Lease, r protocol.Record) {
	var from []any
	if !r.Bound().IsZero() { // it was used
		from = []any{"freeFrom", r.Bound()}
	}
	j.info(l, r.Worker, "worker ID released", from...)
}

func (j *journal) lost(l *Lease, worker int, err error) {
	j.lostAt = machine.Now()
	next := "another worker ID will be taken in its place"
	switch {
	case l.ends(err):
		next = "the lease has ended, as OnLoss says, or because its directory was cloned, too"
	case l.o.Reuse == ReuseKeep:
		next = "it is taken again when it is free, because Reuse says to keep it"
	}
	j.warn(l, worker, "worker ID lost", "until", j.until(l), "error", err, "next", next)
}

func (j *journal) replaced(l *Lease, lost int) {
	g := l.Grant()
	j.info(l, g.Worker, "worker ID replaced", "insteadOf", lost, "until", g.To, "after", ago(j.lostAt))
	j.failing = time.Time{}
	j.checkWindow(l, nil)
	j.checkAway(l)
}

// unacquired is called when Acquire has got no worker ID, and asks the store again until a time
// that may be zero. It logs the first error and, at most once in a window, one with another cause.
func (j *journal) unacquired(l *Lease, err error, until time.Time) {
	why := cause.Of(err)
	if !j.logged.IsZero() && (why == j.cause || machine.Since(j.logged) < l.o.Window) {
		return
	}
	j.cause, j.logged = why, machine.Now()
	next := "the store is asked again"
	if !until.IsZero() {
		next += ", until " + until.UTC().Format(time.RFC3339)
	}
	j.warn(l, none, "no worker ID could be acquired yet", "error", err, "next", next)
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
		j.info(l, l.Worker(), "renewals succeed again", "until", l.Grant().To, "after", ago(j.failing))
		j.failing = time.Time{}
	case err != nil && !errors.Is(err, ErrClockLeap):
		j.fails(l, l.Stats().LastError, "renewals fail")
	}
	j.checkWindow(l, err)
	j.checkExpiry(l)
	j.checkAway(l)
}

// fails logs msg if no renewal has succeeded for half a window, and later if the cause is
// another, but at most once in a window.
func (j *journal) fails(l *Lease, err error, msg string) {
	since, why := l.renewed(), cause.Of(err)
	first := j.failing.IsZero() && machine.Since(since) >= l.o.Window/2
	changed := !j.failing.IsZero() && why != j.cause && machine.Since(j.logged) >= l.o.Window
	if !first && !changed {
		return
	}
	j.failing, j.cause, j.logged = since, why, machine.Now()
	next := retries(err)
	if l.o.now().Before(l.Grant().To) {
		next += "; IDs are issued until the window's end"
	}
	j.warn(l, l.Worker(), msg, "since", since.UTC(), "until", j.until(l), "error", err, "next", next)
}

// retries describes the lease's next step after err.
func retries(err error) string {
	if errors.Is(err, ErrBadRecord) || errors.Is(err, ErrLayout) {
		return "fix what the error names; the lease keeps trying"
	}
	return "the store is asked again"
}

// checkWindow logs that no IDs are issued, if the window has ended and a renewal failed;
// and later that IDs are issued again.
func (j *journal) checkWindow(l *Lease, err error) {
	g := l.Grant()
	switch ended := !l.o.now().Before(g.To); {
	case ended && err != nil && j.stopped.IsZero():
		// If the clock leapt, it is past the window's end by more than the time that has passed.
		end := j.until(l)
		j.stopped = times.Later(machine.Now().Add(end.Sub(l.o.now())), l.renewed())
		j.write(l, slog.LevelError, g.Worker, "no IDs are issued: the window has ended", "since", end, "error", err,
			"next", "IDs are issued again as soon as the cause of the error is gone")
	case !ended && err == nil && l.known.horizon.Behind.IsZero() && !j.stopped.IsZero():
		j.info(l, g.Worker, "IDs are issued again", "until", g.To, "after", ago(j.stopped))
		j.stopped = time.Time{}
	}
}

// checkAway logs that the store is away while the lease continues, and that it is back.
func (j *journal) checkAway(l *Lease) {
	switch why := l.away(); {
	case why != nil && j.away.IsZero():
		j.away = machine.Now()
		j.warn(l, l.Worker(), "the store is away, and the local copy is used", "copy", l.o.LocalCopy, "error", why,
			"next", "IDs are issued all the same; the store is updated when it is back")
	case why == nil && !j.away.IsZero():
		j.info(l, l.Worker(), "the store is back", "after", ago(j.away))
		j.away = time.Time{}
	}
}

// checkClock logs that the clock leapt or stepped back, and that it is right again.
func (j *journal) checkClock(l *Lease, err error) {
	h := &l.known.horizon
	stepped := !h.Behind.IsZero()
	switch leapt := errors.Is(err, ErrClockLeap); {
	case leapt && !j.leapt:
		j.leapt = true
		j.warn(l, l.Worker(), "the clock leapt forward", "until", l.Grant().To, "error", err, "next", h.Mends(l.o.MaxLeap))
	case !leapt && j.leapt && err == nil:
		j.leapt = false
		if !stepped {
			j.info(l, l.Worker(), "the clock is trusted again", "time", l.o.now().UTC())
		}
	}
	switch {
	case stepped && !j.behind:
		j.behind = true
		j.warn(l, l.Worker(), "the clock stepped back",
			"time", h.Read.UTC(), "from", h.Behind.UTC(), "by", h.Behind.Sub(h.Read).Round(time.Millisecond),
			"next", "until the clock has caught up, the generator's policy says what calls do")
	case !stepped && j.behind:
		j.behind = false
		j.info(l, l.Worker(), "the clock is no longer behind", "time", h.Read.UTC())
	}
}

// missing logs that the record of a worker ID is lost.
func (j *journal) missing(l *Lease, worker int) {
	j.warn(l, worker, "the record of a worker ID is lost", "next",
		fmt.Sprintf("others are taken; this one is used again in %v, when every window under it has ended", protocol.Healing(l.o.Layout.Unit)))
}

// ifNew is advice for a store of which nothing shows that it was used.
const ifNew = "if the store is new, lease.Init (snowflaked init) opens it at once"

// waits logs that the store is new, or has lost its entries, and how long this process waits.
func (j *journal) waits(l *Lease, left time.Duration, shut wiped.ShutDoor) {
	args := []any{"wait", left.Round(time.Second)}
	next := wiped.WaitsFor(left, shut.Clocks)
	if shut.Used == "" && l.known.inUse {
		shut.Used = "a worker ID that this process had"
	}
	switch {
	case shut.Used == "":
		next += "; " + ifNew
	case l.o.NewStore:
		next += "; Options.NewStore (--new-store) is not believed, because the store was used"
		fallthrough
	default:
		args = append(args, "found", shut.Used)
	}
	j.warn(l, none, "the store is new, or has lost entries", append(args, "next", next)...)
}

// restored logs that the record was lost and was put back.
func (j *journal) restored(l *Lease, worker int) {
	j.warn(l, worker, "the store lost the record of the worker ID, and it was put back",
		"until", l.Grant().To, "next", "IDs are issued all the same")
}

// namesake logs that another live process has the owner of this lease.
func (j *journal) namesake(l *Lease, process string) {
	worker := none
	if l.grant.Load() != nil {
		worker = l.Worker()
	}
	next := "no ID repeats, but after a restart a process may get the other one's worker ID"
	if l.o.Reuse == ReuseKeep {
		next = "the later one waits for the worker ID that is kept for the owner, for a window and a half"
	}
	j.warn(l, worker, "another live process has the same Owner", "process", process,
		"next", next+"; give each process an Owner of its own")
}

// overlaps logs that another holder may have stamped what this holder has stamped.
func (j *journal) overlaps(l *Lease, worker int, o *protocol.Overlap) {
	to := o.To
	if now := l.o.now(); now.Before(to) {
		to = now
	}
	j.write(l, slog.LevelError, worker, "IDs may have repeated: another holder may have stamped the same time",
		"from", o.From.UTC(), "to", to.UTC(), "next", "nothing more is stamped with this worker ID; look for duplicate IDs of this span")
}

func (j *journal) checkExpiry(l *Lease) {
	if end := l.o.Layout.Expires(); !j.expiring && end.Sub(l.o.now()) < expiry {
		j.expiring = true
		j.warn(l, l.Worker(), "the layout will run out of time", "layout", l.o.Layout.String(), "end", end,
			"next", "no IDs are issued after the end: switch to another layout before")
	}
}
