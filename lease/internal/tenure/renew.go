package tenure

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
func (t *Tenure) Renew(s book.Line, accepted bool) error {
	now := s.Read()
	t.Horizon.Observe(now.Own, now.Steady())
	bound := times.Later(t.Window.To, t.Record.BoundAt(now.Own))
	leap := t.leap(bound, now, accepted)
	to := bound
	if leap != nil {
		to = t.Window.To
	}
	err := t.moveBound(s, to, now)
	if leap != nil && (err == nil || errors.Is(err, ErrRestored)) {
		err = leap
		// The answer has told the holder the store's time.
		if t.Horizon.EngineClock && t.leap(bound, now, accepted) == nil {
			err = t.moveBound(s, bound, now)
		}
	}
	return err
}

// leap returns an error if the bound is too far ahead of the bound that the clocks let expect.
func (t *Tenure) leap(bound time.Time, now book.Reading, accepted bool) error {
	var engine time.Time
	if t.Horizon.EngineClock && !t.Record.Renewed.IsZero() {
		engine = t.Record.Renewed.Add(now.Steady().Sub(t.Heard.At))
	}
	return t.Horizon.Leap(t.Rules, t.Record.Worker, bound, engine, now.Steady(), accepted)
}

// moveBound moves the bound. now is when the renewal began.
func (t *Tenure) moveBound(s book.Line, bound time.Time, now book.Reading) error {
	w, before := t.Window, t.Record
	err := t.change(s, func(r protocol.Record) protocol.Record {
		r = r.Extend(w, bound)
		r.Least, r.NoFloor = s.Unstamped().Least(w, t.Granted)
		return r
	})
	if err == nil && t.Overdue {
		var at time.Time
		if at, t.Passed, err = Above(s, protocol.Door{}, before, time.Time{}, t.Passed); err == nil {
			t.Window.Above, t.Overdue = times.Later(w.Above, at), false
		}
	}
	if err != nil {
		return err
	}
	t.Window.To = t.Record.BoundOf(w.Seq)
	t.Horizon.Reached(t.Window.To, now.Steady())
	return nil
}

// Bump changes to another clock sequence, whose bound the generator's clock, which reads now, has
// passed. It is recorded first.
func (t *Tenure) Bump(s book.Line, now time.Time) error {
	seq, begin := t.Record.Start(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := protocol.Window{Seq: seq, From: t.Rules.WindowFrom(begin, now), Before: begin}
	var before protocol.Record
	err := t.restoreAndChange(s, func(r protocol.Record) protocol.Record {
		before = r
		r = r.Extend(w, r.BoundAt(now))
		t.Lowered = times.Later(t.Lowered, r.Least)
		r.Least, r.To = times.Earlier(r.Least, w.From), times.Later(r.To, t.Window.To)
		return r
	})
	if err == nil {
		w.Above, t.Passed, err = Above(s, protocol.Door{}, before, t.Published(), t.Passed)
	}
	if err != nil {
		return err
	}
	t.Lowered = time.Time{}
	w.To = t.Record.BoundOf(w.Seq)
	t.Window = w
	return nil
}

// Release gives the worker ID back. Nothing was stamped from next on, under any worker ID. If
// stopped is not set, the window may still be stamped.
func (t *Tenure) Release(s book.Line, next time.Time, stopped bool) error {
	if !stopped {
		next = t.Record.Bound()
	}
	state := protocol.StateFree
	if t.Rules.Reuse == protocol.ReuseOnce {
		state = protocol.StateSpent
	}
	// After a loss, next may be an instant under the worker ID that was lost.
	return t.restoreAndChange(s, func(r protocol.Record) protocol.Record {
		r = r.Release(t.Window, next, state, t.Rules.Layout.Unit)
		if !stopped {
			r.Prior = r.Prior.And(protocol.Prior{Least: r.Least, To: next})
		}
		return r
	})
}
