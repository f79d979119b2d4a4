// Package texts reads what people write: layouts, epochs, times, and IDs in any form.
package texts

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// Layout returns the layout of a name or a spec, such as twitter or 41/10/12. An epoch and
// a tick may follow: NAME@EPOCH,TICK. Layout does not validate the layout, because the caller may change
// it first.
func Layout(s string) (snowflake.Layout, error) {
	name, changes, changed := strings.Cut(s, "@")
	l, err := lookUp(name)
	if err != nil || !changed {
		return l, err
	}
	epoch, unit, hasUnit := strings.Cut(changes, ",")
	if l.Epoch, err = Epoch(epoch); err != nil {
		return snowflake.Layout{}, fmt.Errorf("layout %q: %w", s, err)
	}
	if hasUnit {
		if l.Unit, err = time.ParseDuration(unit); err != nil {
			return snowflake.Layout{}, fmt.Errorf("layout %q: %q is not a tick such as 10ms", s, unit)
		}
	}
	return l, nil
}

func lookUp(s string) (snowflake.Layout, error) {
	if k, ok := layouts.ByName(s); ok {
		return k.Layout, nil
	}
	if strings.Contains(s, "/") {
		return parseSpec(s)
	}
	return snowflake.Layout{}, fmt.Errorf("unknown layout %q: \"snowflake layout\" lists the names, and a spec is one like 41/10/12", s)
}

// parseSpec reads the widths of a layout's fields.
func parseSpec(s string) (snowflake.Layout, error) {
	var widths []uint8
	for text := range strings.SplitSeq(s, "/") {
		n, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return snowflake.Layout{}, fmt.Errorf("layout %q: %q is not a number of bits", s, text)
		}
		widths = append(widths, uint8(n))
	}
	l := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond}
	switch len(widths) {
	case 3:
		l.TimeBits, l.WorkerBits, l.SequenceBits = widths[0], widths[1], widths[2]
	case 4:
		l.TimeBits, l.ClockSeqBits, l.WorkerBits, l.SequenceBits = widths[0], widths[1], widths[2], widths[3]
	case 5:
		l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits = widths[0], widths[1], widths[2], widths[3], widths[4]
	default:
		return snowflake.Layout{}, fmt.Errorf("layout %q has %d fields: want 3, 4 or 5", s, len(widths))
	}
	return l, nil
}

// yearAlone is how people write a year, and how nobody writes the Unix milliseconds of an epoch.
var yearAlone = regexp.MustCompile(`^[0-9]{4}$`)

// Epoch reads Unix milliseconds, or a time. It refuses a year alone, because an epoch in the first
// ten seconds of 1970 is not what was meant, and can never be changed.
func Epoch(s string) (snowflake.Epoch, error) {
	if yearAlone.MatchString(s) {
		return 0, fmt.Errorf("epoch %q is ambiguous: write the year as %s-01-01, or Unix milliseconds", s, s)
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return snowflake.Epoch(ms), nil
	}
	t, err := Time(s)
	if err != nil {
		return 0, err
	}
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return 0, errors.New("an epoch is a whole number of milliseconds")
	}
	return snowflake.EpochAt(t), nil
}

// Time reads a time, in UTC if it has no zone.
func Time(s string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot read the time %q: want one like 2026-01-31, 2026-01-31T15:04:05 (UTC) or 2026-01-31T15:04:05+01:00", s)
}
