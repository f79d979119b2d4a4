// Package texts reads what people write: layouts, epochs, times, and IDs in any form.
package texts

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// Layout returns the layout of a name or a spec, such as twitter or 41/10/12. What differs may follow, in this
// order: NAME@EPOCH,TICK,worker-last. If the layout is not valid, the error is Validate's.
func Layout(s string) (snowflake.Layout, error) {
	name, changes, changed := strings.Cut(s, "@")
	var l snowflake.Layout
	var err error
	if k, ok := layouts.ByName(name); ok {
		l = k.Layout
	} else if l, err = parseSpec(name); err != nil {
		return l, err
	}
	if changed {
		if err := change(&l, strings.Split(changes, ",")); err != nil {
			return l, fmt.Errorf("layout %q: %w", s, err)
		}
	}
	return l, l.Validate()
}

// parseSpec reads the widths of a layout's fields.
func parseSpec(s string) (snowflake.Layout, error) {
	l := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond}
	widths := strings.Split(s, "/")
	fields := map[int][]*uint8{
		3: {&l.TimeBits, &l.WorkerBits, &l.SequenceBits},
		4: {&l.TimeBits, &l.ClockSeqBits, &l.WorkerBits, &l.SequenceBits},
		5: {&l.TimeBits, &l.ClockSeqBits, &l.DatacenterBits, &l.WorkerBits, &l.SequenceBits},
	}[len(widths)]
	switch {
	case len(widths) == 1:
		return l, fmt.Errorf("unknown layout %q: \"snowflake layout\" lists the names, and a spec is one like 41/10/12", s)
	case fields == nil:
		return l, fmt.Errorf("layout %q has %d fields: want 3, 4 or 5", s, len(widths))
	}
	for i, text := range widths {
		n, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return l, fmt.Errorf("layout %q: %q is not a number of bits", s, text)
		}
		*fields[i] = uint8(n)
	}
	return l, nil
}

// Spell writes a layout as Layout reads it, in widths: 39/16/8@2014-09-01,10ms,worker-last.
func Spell(l snowflake.Layout) string {
	widths := []uint8{l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits}
	if l.DatacenterBits == 0 {
		widths = slices.Delete(widths, 2, 3)
		if l.ClockSeqBits == 0 {
			widths = slices.Delete(widths, 1, 2)
		}
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(widths), " ", "/"), "[]")
	switch epoch := spellEpoch(l.Epoch); {
	case l.WorkerLast:
		return fmt.Sprintf("%s@%s,%v,worker-last", text, epoch, l.Unit)
	case l.Unit != time.Millisecond:
		return fmt.Sprintf("%s@%s,%v", text, epoch, l.Unit)
	case l.Epoch != snowflake.DefaultEpoch:
		return text + "@" + epoch
	}
	return text
}

// spellEpoch writes a date, a time, or Unix milliseconds if the year has no four digits.
func spellEpoch(e snowflake.Epoch) string {
	t := e.Time()
	switch {
	case t.Year() < 0 || t.Year() > 9999:
		return fmt.Sprint(int64(e))
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339Nano)
}

// change reads what comes after the @.
func change(l *snowflake.Layout, changes []string) (err error) {
	if l.Epoch, err = Epoch(changes[0]); err != nil {
		return err
	}
	if len(changes) > 1 {
		if l.Unit, err = time.ParseDuration(changes[1]); err != nil {
			return fmt.Errorf("%q is not a tick such as 10ms", changes[1])
		}
	}
	if len(changes) > 2 {
		if more := strings.Join(changes[2:], ","); more != "worker-last" {
			return fmt.Errorf("%q after the tick is not worker-last", more)
		}
		l.WorkerLast = true
	}
	return nil
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
	t, _, err := Span(s)
	return t, err
}

// spans are the forms of a time, and how long a span each stands for.
var spans = []struct {
	form   string
	length time.Duration
}{
	{time.RFC3339, time.Second}, {"2006-01-02T15:04:05", time.Second}, {time.DateTime, time.Second},
	{"2006-01-02T15:04", time.Minute}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04Z07:00", time.Minute},
	{time.DateOnly, 24 * time.Hour},
}

// Span reads a time as Time does, and how long a span it stands for: a date for a day, a time without seconds for a
// minute, and other times for a second or a fraction of one.
func Span(s string) (t time.Time, length time.Duration, err error) {
	for _, span := range spans {
		t, err := time.Parse(span.form, s)
		switch {
		case err != nil:
		case t.Nanosecond() != 0:
			return t, time.Millisecond, nil
		default:
			return t, span.length, nil
		}
	}
	return time.Time{}, 0, fmt.Errorf("cannot read the time %q: want one like 2026-01-31, 2026-01-31 15:04 (UTC) or 2026-01-31T15:04:05+01:00", s)
}
