package lease

import (
	"context"
	"errors"
)

// heal puts back what the store lost besides the record of this holder, which was put back before:
// the watermark and the store's door. Until the door is open, each call counts how long it is
// closed, so that newcomers do not wait for all of that time themselves.
func (l *Lease) heal(ctx context.Context) error {
	s := l.renewing(ctx)
	d, err := getDoor(s)
	if err != nil && (!errors.Is(err, ErrBadRecord) || d.version == "") {
		return err
	}
	m, err := getMark(s)
	if err == nil && m.lost() {
		is := l.shown.Load()
		_, err = restoreMark(s, m, is.own, later(is.own.Least, is.passed)) // nothing later was proposed while this holder lived
	}
	if err != nil {
		return err
	}
	if d.Open {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wiped = false
		return nil
	}
	c := clocks{own: l.o.now()}
	if c.engine, err = s.engine(); err == nil {
		_, _, err = l.advanceDoor(s, d, door{Layout: l.o.Layout, Marked: true}, c, false)
	}
	return err
}
