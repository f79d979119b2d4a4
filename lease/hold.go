package lease

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// hold is what a holder knows of its worker ID. It has no store, clock, context, lock or goroutine:
// what a method does depends on the hold, the arguments, and what comes over the line. Whoever has
// taken it out of Lease.slot owns it.
type hold struct {
	rules   rules
	own     record // as last known to be stored
	window  window // what may be stamped
	granted bool   // window is in the grant, because the clock has reached it
	born    uint64 // the machine's generation before the store was asked for the worker ID
	doubt   doubt  // whether the stored record is own

	tried []record // by saves without an answer: each may have been stored, or may be yet
	freed bool     // a release has had no answer: others may have the worker ID by now
	heard heard    // when own was saved

	// overdue says that a save came so late that the holder may have counted as dead, and that the
	// holder has not looked at the watermark since.
	overdue bool

	passed time.Time // what the watermark had passed when the holder looked last

	// lowered is the floor before changes of the clock sequence since which the holder has not
	// looked at the watermark; zero if there are none.
	lowered time.Time

	horizon horizon
}

// rules are the options that a hold goes by.
type rules struct {
	layout  snowflake.Layout
	window  time.Duration
	maxLeap time.Duration
	history time.Duration
	reuse   Reuse
}

// doubt is what a holder does not know of its record.
type doubt uint8

const (
	sure      doubt = iota // the stored record is own, or another holder's
	unsure                 // a save failed, so the stored record has to be read before the next one
	returning              // unsure, and the record was sent to be put back, perhaps too late
)

// heard is when a record was last saved.
type heard struct {
	renewed time.Time // when the last save began, by the monotonic clock,
	read    time.Time // and what the clock read then

	// at is when the last save had been made, by the steady clock. It is not before record.Renewed,
	// so that no leap hides in the time that the save took.
	at time.Time
}

// renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves the
// bound and only shows that the holder lives. If accepted is set, no leap is too far. If the record
// was lost and is put back, the error matches errRestored; the next renewal moves the bound.
func (h *hold) renew(s line, accepted bool) error {
	now := s.read()
	h.horizon.observe(now.own, now.steady())
	bound := later(h.window.to, now.own.Add(h.rules.window))
	leap := h.leap(bound, now, accepted)
	to := bound
	if leap != nil {
		to = h.window.to
	}
	err := h.push(s, to, now)
	if leap != nil && (err == nil || errors.Is(err, errRestored)) {
		err = leap
		// The answer has told the holder the store's time.
		if h.horizon.ownClock && h.leap(bound, now, accepted) == nil {
			err = h.push(s, bound, now)
		}
	}
	return err
}

// leap returns an error if the bound is too far ahead of what the clocks let expect.
func (h *hold) leap(bound time.Time, now reading, accepted bool) error {
	var engine time.Time
	if h.horizon.ownClock && !h.own.Renewed.IsZero() {
		engine = h.own.Renewed.Add(now.steady().Sub(h.heard.at))
	}
	return h.horizon.leap(h.rules, h.own.Worker, bound, engine, now.steady(), accepted)
}

// push moves the bound. now is when the renewal began.
func (h *hold) push(s line, bound time.Time, now reading) error {
	w, own := h.window, h.own
	err := h.move(s, func(r record) record {
		r = r.extend(w, bound)
		r.Least, r.NoFloor = s.floor().least(w, h.granted)
		return r
	})
	if err == nil && h.overdue {
		var at time.Time
		if at, h.passed, err = above(s, door{}, own, time.Time{}, h.passed); err == nil {
			h.window.above, h.overdue = later(w.above, at), false
		}
	}
	if err != nil {
		return err
	}
	h.window.to = h.own.bound(w.seq)
	h.horizon.reached(h.window.to, now.steady())
	return nil
}

// bump changes to another clock sequence, whose bound the generator's clock, which reads now, has
// passed. It is recorded first.
func (h *hold) bump(s line, now time.Time) error {
	seq, begin := h.own.start(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := window{seq: seq, from: h.rules.begin(begin, now), before: begin}
	var own record
	err := h.moveAgain(s, func(r record) record {
		own = r
		r = r.extend(w, now.Add(h.rules.window))
		h.lowered = later(h.lowered, r.Least)
		r.Least, r.To = earlier(r.Least, w.from), later(r.To, h.window.to)
		return r
	})
	if err == nil {
		w.above, h.passed, err = above(s, door{}, own, h.published(), h.passed)
	}
	if err != nil {
		return err
	}
	h.lowered = time.Time{}
	w.to = h.own.bound(w.seq)
	h.window = w
	return nil
}

// published returns an instant after which nothing was published while the holder counted as alive;
// zero if it may have counted as dead, so that this is not known.
func (h *hold) published() time.Time {
	if h.overdue {
		return time.Time{}
	}
	return later(h.own.Least, later(h.passed, h.lowered))
}

// release gives the worker ID back. Nothing was stamped from next on, under any worker ID. If
// stopped is not set, nobody has stopped whoever stamps the window.
func (h *hold) release(s line, next time.Time, stopped bool) error {
	if !stopped {
		next = h.own.Bound()
	}
	state := StateFree
	if h.rules.reuse == ReuseOnce {
		state = StateSpent
	}
	// After a loss, next may be an instant under the worker ID that was lost.
	return h.moveAgain(s, func(r record) record {
		r = r.release(h.window, next, state, h.rules.layout.Unit)
		if !stopped {
			r.Prior = r.Prior.and(prior{r.Least, next})
		}
		return r
	})
}

// begin returns where a window begins if nothing was stamped at or after from and the clock reads
// now: at from or, if that is later, at the tick that was open clockLag ago.
func (r rules) begin(from, now time.Time) time.Time {
	now = now.Add(-clockLag)
	if id, err := r.layout.Encode(snowflake.Parts{Time: now}); err == nil {
		now = r.layout.Decode(id).Time
	}
	return later(from, now).UTC()
}

// clockLag is how far the generator's clock may lag behind a reading of the lease's without a wait
// for the beginning of the window. It allows for a clock that is slewed and for late wake-ups. The
// watermark stands there until the first renewal, so it is short.
const clockLag = 20 * time.Millisecond
