package hold

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Above reads the watermark after a save, and returns the first instant that the saved window may
// stamp: whoever proposes a later one sees what was saved. d is the door if it was read before. If
// the watermark is lost, above puts it back at most, or later than anything that was proposed. own
// is the record before the save, and passed is what the watermark had passed when above looked
// last. If there is a LocalCopy and the store is away, the window begins now.
func Above(s book.Line, d protocol.Door, own protocol.Record, most, passed time.Time) (at, nowPassed time.Time, err error) {
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
	if err == nil && m.Lost() && (m.Bad || d.Version == "" || d.Marked) {
		m, err = RestoreWatermark(s, m, own, most)
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

// RestoreWatermark puts back a watermark that was lost. Nothing later than most was proposed. If
// most is zero, this is not known, and RestoreWatermark takes the latest bound, because nothing
// later is ever proposed. But a clock that was ahead once may have left a bound far ahead. Then it
// takes the latest floor of a holder: nothing later was proposed while one of them lived. If none
// did, what was proposed is at most skew after this clock, unless a reader's clock differed from it
// by more.
func RestoreWatermark(s book.Line, m protocol.Watermark, own protocol.Record, most time.Time) (protocol.Watermark, error) {
	if most.IsZero() {
		records, _, err := book.AllRecords(s)
		if err != nil {
			return m, err
		}
		records[own.Worker] = own
		all, now := slices.Collect(maps.Values(records)), s.Read().Own
		most = times.Later(times.Earlier(protocol.Latest(all), times.Later(protocol.Floors(all), now.Add(protocol.Skew))), now)
	}
	m.Proposed = most.UTC()
	m, err := book.PutWatermark(s, m)
	if errors.Is(err, driver.ErrBadRecord) {
		err = nil // it cannot be replaced
	}
	m.Proposed = times.Later(m.Proposed, most)
	return m, err
}
