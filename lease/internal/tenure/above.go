package tenure

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// Above reads the watermark after a save, and returns the first instant that the saved window may
// stamp: whoever proposes a later one sees what was saved. d is the door if it has been read. If
// the watermark is lost, Above puts it back: at most or, if that is zero, after every proposed
// instant. before is the record before the save, and passed is the instant that the watermark had
// passed at the last look. If the holder continues while the store is away, the window begins now.
func Above(s book.Line, d protocol.Door, before protocol.Record, most, passed time.Time) (at, nowPassed time.Time, err error) {
	if s.Away() != nil {
		return s.Read().Own, passed, nil
	}
	m, err := book.GetWatermark(s)
	if err == nil && m.Lost() && d.Version == "" {
		d, err = book.GetDoor(s)
	}
	if errors.Is(err, driver.ErrBadRecord) { // it counts as lost
		d, err = protocol.Door{}, nil
	}
	if err == nil && m.Lost() && (m.Bad || d.Version == "" || d.Watermarked) {
		m, err = wiped.RestoreWatermark(s, m, before, most)
	}
	switch {
	case err != nil && s.Away() != nil:
		return s.Read().Own, passed, nil
	case err != nil:
		return time.Time{}, passed, err
	}
	at = times.Later(m.Proposed, passed)
	return at, at, nil
}
