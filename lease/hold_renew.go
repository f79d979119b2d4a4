package lease

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves the
// bound and only shows that the holder lives. If accepted is set, no leap is too far. If the record
// was lost and is put back, the error matches errRestored; the next renewal moves the bound.
func (h *hold) renew(s line, accepted bool) error {
	now := s.read()
	h.horizon.observe(now.own, now.steady())
	bound := times.Later(h.window.to, now.own.Add(h.rules.window))
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
			h.window.above, h.overdue = times.Later(w.above, at), false
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
		h.lowered = times.Later(h.lowered, r.Least)
		r.Least, r.To = times.Earlier(r.Least, w.from), times.Later(r.To, h.window.to)
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
