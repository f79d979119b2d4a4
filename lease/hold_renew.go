package lease

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves the
// bound and only shows that the holder lives. If accepted is set, no leap is too far. If the record
// was lost and is put back, the error matches errRestored; the next renewal moves the bound.
func (h *hold) renew(s book.Line, accepted bool) error {
	now := s.Read()
	h.horizon.observe(now.Own, now.Steady())
	bound := times.Later(h.window.To, now.Own.Add(h.rules.window))
	leap := h.leap(bound, now, accepted)
	to := bound
	if leap != nil {
		to = h.window.To
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
func (h *hold) leap(bound time.Time, now book.Reading, accepted bool) error {
	var engine time.Time
	if h.horizon.ownClock && !h.own.Renewed.IsZero() {
		engine = h.own.Renewed.Add(now.Steady().Sub(h.heard.at))
	}
	return h.horizon.leap(h.rules, h.own.Worker, bound, engine, now.Steady(), accepted)
}

// push moves the bound. now is when the renewal began.
func (h *hold) push(s book.Line, bound time.Time, now book.Reading) error {
	w, own := h.window, h.own
	err := h.move(s, func(r protocol.Record) protocol.Record {
		r = r.Extend(w, bound)
		r.Least, r.NoFloor = s.Floor().Least(w, h.granted)
		return r
	})
	if err == nil && h.overdue {
		var at time.Time
		if at, h.passed, err = above(s, protocol.Door{}, own, time.Time{}, h.passed); err == nil {
			h.window.Above, h.overdue = times.Later(w.Above, at), false
		}
	}
	if err != nil {
		return err
	}
	h.window.To = h.own.BoundOf(w.Seq)
	h.horizon.reached(h.window.To, now.Steady())
	return nil
}

// bump changes to another clock sequence, whose bound the generator's clock, which reads now, has
// passed. It is recorded first.
func (h *hold) bump(s book.Line, now time.Time) error {
	seq, begin := h.own.Start(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := protocol.Window{Seq: seq, From: h.rules.begin(begin, now), Before: begin}
	var own protocol.Record
	err := h.moveAgain(s, func(r protocol.Record) protocol.Record {
		own = r
		r = r.Extend(w, now.Add(h.rules.window))
		h.lowered = times.Later(h.lowered, r.Least)
		r.Least, r.To = times.Earlier(r.Least, w.From), times.Later(r.To, h.window.To)
		return r
	})
	if err == nil {
		w.Above, h.passed, err = above(s, protocol.Door{}, own, h.published(), h.passed)
	}
	if err != nil {
		return err
	}
	h.lowered = time.Time{}
	w.To = h.own.BoundOf(w.Seq)
	h.window = w
	return nil
}

// release gives the worker ID back. Nothing was stamped from next on, under any worker ID. If
// stopped is not set, nobody has stopped whoever stamps the window.
func (h *hold) release(s book.Line, next time.Time, stopped bool) error {
	if !stopped {
		next = h.own.Bound()
	}
	state := StateFree
	if h.rules.reuse == ReuseOnce {
		state = StateSpent
	}
	// After a loss, next may be an instant under the worker ID that was lost.
	return h.moveAgain(s, func(r protocol.Record) protocol.Record {
		r = r.Release(h.window, next, state, h.rules.layout.Unit)
		if !stopped {
			r.Prior = r.Prior.And(protocol.Prior{Least: r.Least, To: next})
		}
		return r
	})
}
