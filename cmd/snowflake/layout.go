package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/shown"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func layoutCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "layout [NAME|SPEC]",
		Short: "Draw a layout and say how many IDs it has, or list the layouts",
		Long: `Draws the bits of a layout, and says how many workers and how many IDs a second
it has, and when its time runs out. Without an argument it lists the layouts
that have a name.`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: layoutNames(),
	}
	change := layoutChanges(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			var changed snowflake.Layout
			if change(&changed); changed != (snowflake.Layout{}) {
				return errors.New("layout takes flags only with a name or a spec")
			}
			return listLayouts(s)
		}
		l, err := parseLayout(args[0], change)
		if err != nil {
			return err
		}
		if s.json {
			return s.writeJSON(shown.Describe(layouts.Known{Layout: l}))
		}
		describe(s.out, l, time.Now())
		return nil
	}
	return c
}

func listLayouts(s *streams) error {
	var all []shown.Layout
	for _, k := range layouts.All() {
		all = append(all, shown.Describe(k))
		if !s.json {
			fmt.Fprintf(s.out, "%-19s%v\n", k.Name, k.Layout)
		}
	}
	if s.json {
		return s.writeJSON(all)
	}
	return nil
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
