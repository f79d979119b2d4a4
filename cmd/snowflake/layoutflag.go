package main

import (
	"flag"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

// aboutLayouts explains NAME, SPEC and the flags that change a layout.
func aboutLayouts() string {
	var b strings.Builder
	b.WriteString("A layout says how the bits of an ID are shared. It has a name, one of")
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

or is written as the widths of its fields in bits, from high to low:
  41/10/12       time/worker/sequence
  41/3/7/12      time/clockseq/worker/sequence
  41/0/5/5/12    time/clockseq/datacenter/worker/sequence
and then it counts milliseconds since 2026-01-01. Flags change a layout:
  -unit 10ms          the tick: what the time field counts
  -epoch 2020-01-01   when the time field is 0: a date, RFC 3339, or Unix ms
  -worker-last        the worker has the lowest bits, below the sequence

So do NAME@EPOCH and NAME@EPOCH,TICK, such as sonyflake@2020-01-01,10ms.
"snowflake layout" lists the names; "snowflake layout NAME" draws one.
`)
	return b.String()
}

// defineLayout defines the four layout flags, and returns a function that returns
// the layout they ask for.
func defineLayout(fs *flag.FlagSet) func() (snowflake.Layout, error) {
	name := fs.String("layout", "default", "`NAME|SPEC` of the layout")
	change := defineChanges(fs)
	return func() (snowflake.Layout, error) { return parseLayout(*name, change) }
}

// defineChanges defines the flags that change a layout, and returns a function that
// makes the changes.
func defineChanges(fs *flag.FlagSet) func(*snowflake.Layout) {
	var to snowflake.Layout
	fs.DurationVar(&to.Unit, "unit", 0, "the `tick` of the time field, such as 1ms or 10s (default the layout's own)")
	fs.Func("epoch", "the `time` at which the time field is 0: a date, RFC 3339, or Unix milliseconds (default the layout's own)",
		func(s string) (err error) {
			to.Epoch, err = layouts.ParseEpoch(s)
			return err
		})
	fs.BoolVar(&to.WorkerLast, "worker-last", false, "the worker has the lowest bits, below the sequence (default the layout's own)")
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

// parseLayout returns the layout of a name or a spec, after change. If the layout is not
// valid, it returns Validate's error.
func parseLayout(s string, change func(*snowflake.Layout)) (snowflake.Layout, error) {
	l, err := layouts.Parse(s)
	if err != nil {
		return snowflake.Layout{}, err
	}
	change(&l)
	return l, l.Validate()
}
