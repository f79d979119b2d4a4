// Package texts parses layouts, epochs, times, and IDs in any form, as users write them.
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

// LayoutNames returns the names of the layouts that have one.
func LayoutNames() (names []string) {
	for _, k := range layouts.All() {
		names = append(names, k.Name)
	}
	return names
}

// Layout parses a layout: a text of snowflake.Layout.String, a name such as twitter, or only the
// widths, such as 41/10/12. Other settings may follow, in this order: NAME@EPOCH,TICK,worker-last.
// If the layout is not valid, the error is Validate's.
func Layout(s string) (snowflake.Layout, error) {
	name, changes, changed := strings.Cut(s, "@")
	var l snowflake.Layout
	var err error
	if k, ok := layouts.ByName(name); ok {
		l = k.Layout
	} else if name == "seata" {
		return l, errors.New("IDs of seata have the worker above the time, as no layout here has it: \"snowflake identify\" shows their fields; " +
			"seata-1.4 is the layout of Seata up to version 1.4")
	} else if !strings.Contains(name, "/") {
		return l, fmt.Errorf("unknown layout %q: \"snowflake layout\" lists the names, and a spec is one like 41/10/12", name)
	} else if l, err = snowflake.ParseLayout(name + "@2026-01-01,1ms"); err != nil {
		return l, err
	}
	if changed {
		if err := change(&l, strings.Split(changes, ",")); err != nil {
			return l, fmt.Errorf("layout %q: %w", s, err)
		}
	}
	return l, l.Validate()
}

// change applies the settings after the @.
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

// yearAlone matches a year.
var yearAlone = regexp.MustCompile(`^[0-9]{4}$`)

// Epoch parses Unix milliseconds, or a time. It refuses a year alone: as milliseconds it would be
// in the first ten seconds of 1970, and an epoch can never be changed.
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

// Time parses a time, in UTC if it has no zone.
func Time(s string) (time.Time, error) {
	t, _, err := Span(s)
	return t, err
}

// spans are the forms of a time, and the length of the span that each stands for.
var spans = []struct {
	form   string
	length time.Duration
}{
	{time.RFC3339, time.Second}, {"2006-01-02T15:04:05", time.Second}, {time.DateTime, time.Second},
	{"2006-01-02T15:04", time.Minute}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04Z07:00", time.Minute},
	{time.DateOnly, 24 * time.Hour},
}

// Span reads a time as Time does, and returns the length of the span that it stands for: a day for
// a date, a minute for a time without seconds, and otherwise a second or a fraction of one.
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
	return time.Time{}, 0, fmt.Errorf("cannot read the time %q: want one like 2026-01-31, 2026-01-31 15:04 (UTC) "+
		"or 2026-01-31T15:04:05+01:00", s)
}
