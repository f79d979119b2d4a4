package hold

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves the
// bound and only shows that the holder lives. If accepted is set, no leap is too far. If the record
// was lost and is put back, the error matches ErrRestored; the next renewal moves the bound.
func (h *Hold) Renew(s book.Line, accepted bool) error {
	now := s.Read()
	h.Horizon.Observe(now.Own, now.Steady())
	bound := times.Later(h.Window.To, h.Own.BoundAt(now.Own))
	leap := h.leap(bound, now, accepted)
	to := bound
	if leap != nil {
		to = h.Window.To
	}
	err := h.moveBound(s, to, now)
	if leap != nil && (err == nil || errors.Is(err, ErrRestored)) {
		err = leap
		// The answer has told the holder the store's time.
		if h.Horizon.EngineClock && h.leap(bound, now, accepted) == nil {
			err = h.moveBound(s, bound, now)
		}
	}
	return err
}

// leap returns an error if the bound is too far ahead of what the clocks let expect.
func (h *Hold) leap(bound time.Time, now book.Reading, accepted bool) error {
	var engine time.Time
	if h.Horizon.EngineClock && !h.Own.Renewed.IsZero() {
		engine = h.Own.Renewed.Add(now.Steady().Sub(h.Heard.At))
	}
	return h.Horizon.Leap(h.Rules, h.Own.Worker, bound, engine, now.Steady(), accepted)
}

// moveBound moves the bound. now is when the renewal began.
func (h *Hold) moveBound(s book.Line, bound time.Time, now book.Reading) error {
	w, own := h.Window, h.Own
	err := h.change(s, func(r protocol.Record) protocol.Record {
		r = r.Extend(w, bound)
		r.Least, r.NoFloor = s.Unstamped().Least(w, h.Granted)
		return r
	})
	if err == nil && h.Overdue {
		var at time.Time
		if at, h.Passed, err = Above(s, protocol.Door{}, own, time.Time{}, h.Passed); err == nil {
			h.Window.Above, h.Overdue = times.Later(w.Above, at), false
		}
	}
	if err != nil {
		return err
	}
	h.Window.To = h.Own.BoundOf(w.Seq)
	h.Horizon.Reached(h.Window.To, now.Steady())
	return nil
}

// Bump changes to another clock sequence, whose bound the generator's clock, which reads now, has
// passed. It is recorded first.
func (h *Hold) Bump(s book.Line, now time.Time) error {
	seq, begin := h.Own.Start(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := protocol.Window{Seq: seq, From: h.Rules.WindowFrom(begin, now), Before: begin}
	var own protocol.Record
	err := h.restoreAndChange(s, func(r protocol.Record) protocol.Record {
		own = r
		r = r.Extend(w, r.BoundAt(now))
		h.Lowered = times.Later(h.Lowered, r.Least)
		r.Least, r.To = times.Earlier(r.Least, w.From), times.Later(r.To, h.Window.To)
		return r
	})
	if err == nil {
		w.Above, h.Passed, err = Above(s, protocol.Door{}, own, h.Published(), h.Passed)
	}
	if err != nil {
		return err
	}
	h.Lowered = time.Time{}
	w.To = h.Own.BoundOf(w.Seq)
	h.Window = w
	return nil
}

// Release gives the worker ID back. Nothing was stamped from next on, under any worker ID. If
// stopped is not set, nobody has stopped whoever stamps the window.
func (h *Hold) Release(s book.Line, next time.Time, stopped bool) error {
	if !stopped {
		next = h.Own.Bound()
	}
	state := protocol.StateFree
	if h.Rules.Reuse == protocol.ReuseOnce {
		state = protocol.StateSpent
	}
	// After a loss, next may be an instant under the worker ID that was lost.
	return h.restoreAndChange(s, func(r protocol.Record) protocol.Record {
		r = r.Release(h.Window, next, state, h.Rules.Layout.Unit)
		if !stopped {
			r.Prior = r.Prior.And(protocol.Prior{Least: r.Least, To: next})
		}
		return r
	})
}
