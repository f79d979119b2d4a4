package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

var commandLayout = command{
	name:     "layout",
	synopsis: []string{"[NAME|SPEC]"},
	summary:  "draw a layout and say how many IDs it has, or list the layouts",
	about: `Draws the bits of a layout, and says how many workers and how many IDs a second
it has, and when its time runs out. Without an argument it lists the layouts
that have a name.
`,
	setup: setupLayout,
}

func setupLayout(fs *flag.FlagSet) action {
	change := defineChanges(fs)
	return func(s streams, args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("layout takes one name or spec, got %d arguments", len(args))
		case len(args) == 0 && flagsOtherThan(fs, "json"):
			return errors.New("layout takes flags only with a name or a spec")
		case len(args) == 0:
			if s.json {
				return s.writeJSON(layouts.All())
			}
			listPresets(s.out)
			return nil
		}
		l, err := parseLayout(args[0], change)
		if err != nil {
			return err
		}
		if s.json {
			return s.writeJSON(described{l, l.String(), jsontime.Time{Time: l.Expires()}})
		}
		describe(s.out, l, time.Now())
		return nil
	}
}

// flagsOtherThan reports whether a flag other than name was given.
func flagsOtherThan(fs *flag.FlagSet, name string) (other bool) {
	fs.Visit(func(f *flag.Flag) { other = other || f.Name != name })
	return other
}

// described is a layout as JSON.
type described struct {
	Layout  snowflake.Layout `json:"layout"`
	Text    string           `json:"text"`
	Expires jsontime.Time    `json:"expires"`
}

func listPresets(w io.Writer) {
	for _, k := range layouts.All() {
		fmt.Fprintf(w, "%-19s%v\n", k.Name, k.Layout)
	}
}

// describe writes the layout's diagram and, below it, its numbers.
func describe(w io.Writer, l snowflake.Layout, now time.Time) {
	fmt.Fprintln(w, diagram(l))
	row := func(name, value string) { fmt.Fprintf(w, "%-17s%s\n", name, value) }
	if l.ClockSeqBits > 0 {
		row("clock sequences", count(l.ClockSeqBits))
	}
	if l.DatacenterBits > 0 {
		row("datacenters", count(l.DatacenterBits))
		row("workers", fmt.Sprintf("%s in each datacenter, %s in all", count(l.WorkerBits), count(l.DatacenterBits+l.WorkerBits)))
	} else {
		row("workers", count(l.WorkerBits))
	}
	row("IDs per second", fmt.Sprintf("%s for one worker, %s in all", rate(l, 0), rate(l, l.DatacenterBits+l.WorkerBits)))
	row("epoch", l.Epoch.Time().Format(time.RFC3339Nano))
	row("tick", l.Unit.String())
	row("runs out", expiry(l, now))
}

// expiry says when the layout runs out, and whether it has run out already.
func expiry(l snowflake.Layout, now time.Time) string {
	end := l.Expires()
	text := end.Format(time.RFC3339Nano)
	if !now.Before(end) {
		text += ", which is past: no more IDs can be issued"
	}
	return text
}

// count returns how many values a field has.
func count(bits uint8) string {
	return group(strconv.FormatUint(1<<bits, 10))
}

// rate returns how many IDs a second 2^bits workers have.
func rate(l snowflake.Layout, bits uint8) string {
	const exact = 1 << 53 // up to here a float64 holds every whole number
	n := math.Ldexp(float64(time.Second), int(l.SequenceBits+bits)) / float64(l.Unit)
	if n != math.Trunc(n) || n > exact {
		return strconv.FormatFloat(n, 'g', 4, 64)
	}
	return group(strconv.FormatFloat(n, 'f', 0, 64))
}

// group puts a comma between thousands.
func group(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
