package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

// aboutLayouts explains NAME, SPEC and the flags that change a layout.
func aboutLayouts() string {
	var b strings.Builder
	b.WriteString("A layout says how the bits of an ID are shared. It is named, one of")
	width := 0
	for _, k := range layouts.All() {
		if width == 0 || width+1+len(k.Name) > 76 {
			b.WriteString("\n ")
			width = 0
		}
		b.WriteString(" " + k.Name)
		width += 1 + len(k.Name)
	}
	b.WriteString(`

or spelled out by the widths of its fields in bits, from high to low:
  41/10/12       time/worker/sequence
  41/3/7/12      time/clockseq/worker/sequence
  41/0/5/5/12    time/clockseq/datacenter/worker/sequence
and then it counts milliseconds since 2026-01-01. These change a layout:
  -unit 10ms          the tick that the time field counts
  -epoch 2020-01-01   when the time field is 0: a date, RFC 3339, or Unix ms
  -worker-last        the worker is lowest, under the sequence

NAME@EPOCH and NAME@EPOCH,TICK do, too, such as sonyflake@2020-01-01,10ms.
"snowflake layout" lists the names; "snowflake layout NAME" draws one.
`)
	return b.String()
}

// defineLayout defines the four layout flags. The function that it returns
// yields the layout that they ask for.
func defineLayout(fs *flag.FlagSet) func() (snowflake.Layout, error) {
	name := fs.String("layout", "default", "`NAME|SPEC` of the layout")
	change := defineChanges(fs)
	return func() (snowflake.Layout, error) { return parseLayout(*name, change) }
}

// defineChanges defines the flags that change a layout. The function that it
// returns makes those changes that were asked for.
func defineChanges(fs *flag.FlagSet) func(*snowflake.Layout) {
	var to snowflake.Layout
	fs.DurationVar(&to.Unit, "unit", 0, "the `tick` of the time field, such as 1ms or 10s (default the layout's own)")
	fs.Func("epoch", "the `time` at which the time field is 0: a date, RFC 3339, or Unix milliseconds (default the layout's own)",
		func(s string) (err error) {
			to.Epoch, err = parseEpoch(s)
			return err
		})
	fs.BoolVar(&to.WorkerLast, "worker-last", false, "the worker is lowest, under the sequence (default the layout's own)")
	return func(l *snowflake.Layout) {
		fs.Visit(func(f *flag.Flag) {
			switch f.Name {
			case "unit":
				l.Unit = to.Unit
			case "epoch":
				l.Epoch = to.Epoch
			case "worker-last":
				l.WorkerLast = to.WorkerLast
			}
		})
	}
}

// parseLayout returns the layout of a name or a spec, after change, and only if
// it is valid. An epoch and a tick may follow: NAME@EPOCH,TICK.
func parseLayout(s string, change func(*snowflake.Layout)) (snowflake.Layout, error) {
	name, changes, changed := strings.Cut(s, "@")
	l, err := lookUp(name)
	if err != nil {
		return snowflake.Layout{}, err
	}
	if changed {
		epoch, unit, hasUnit := strings.Cut(changes, ",")
		if l.Epoch, err = parseEpoch(epoch); err != nil {
			return snowflake.Layout{}, fmt.Errorf("layout %q: %w", s, err)
		}
		if hasUnit {
			if l.Unit, err = time.ParseDuration(unit); err != nil {
				return snowflake.Layout{}, fmt.Errorf("layout %q: %q is not a tick such as 10ms", s, unit)
			}
		}
	}
	change(&l)
	return l, l.Validate()
}

func lookUp(s string) (snowflake.Layout, error) {
	if k, ok := layouts.Find(s); ok {
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

// parseEpoch reads Unix milliseconds, or a time.
func parseEpoch(s string) (snowflake.Epoch, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return snowflake.Epoch(ms), nil
	}
	t, err := parseTime(s)
	if err != nil {
		return 0, err
	}
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		return 0, errors.New("an epoch is a whole number of milliseconds")
	}
	return snowflake.EpochAt(t), nil
}

// parseTime reads a time, in UTC where it has no zone.
func parseTime(s string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot read the time %q: want one like 2026-01-31, 2026-01-31T15:04:05 (UTC) or 2026-01-31T15:04:05+01:00", s)
}
