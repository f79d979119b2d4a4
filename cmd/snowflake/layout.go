package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/answers"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func layoutCommand(s *command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "layout [NAME|SPEC]",
		Short: command.Short("layout"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("layout takes at most one argument, NAME or SPEC; got %d", len(args))
			}
			return nil
		},
		ValidArgs: texts.LayoutNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listLayouts(s)
			}
			l, err := texts.Layout(args[0])
			if err != nil {
				return err
			}
			if s.JSON {
				return s.WriteJSON(answers.Describe(layouts.Known{Layout: l}))
			}
			describe(s.Out, l, s.Now())
			return nil
		},
	}
}

// layoutFlag defines --layout, and returns its value.
func layoutFlag(c *cobra.Command) *snowflake.Layout {
	l := new(snowflake.Layout)
	commands.LayoutFlag(c, l, "snowflake help layout")
	return l
}

func listLayouts(s *command.Streams) error {
	var all []answers.Layout
	for _, k := range layouts.All() {
		all = append(all, answers.Describe(k))
	}
	if s.JSON {
		return s.WriteJSON(all)
	}
	for _, k := range all {
		fmt.Fprintf(s.Out, "%-19s%s\n", k.Name, k.Text)
	}
	return nil
}

// describe writes the fields of a layout from high to low and, below them, its numbers.
func describe(out io.Writer, l snowflake.Layout, now time.Time) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "field\tbits\tplace\tvalues")
	bit := 63
	row := func(name string, bits uint8) {
		if bits > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d..%d\t%s\n", name, bits, bit-1, bit-int(bits), texts.Number(math.Ldexp(1, int(bits))))
		}
		bit -= int(bits)
	}
	all := l.ClockSeqBits + l.DatacenterBits + l.WorkerBits
	row("unused", 63-l.TimeBits-all-l.SequenceBits)
	row("time", l.TimeBits)
	row("clockSeq", l.ClockSeqBits)
	row("datacenter", l.DatacenterBits)
	if l.WorkerLast {
		row("sequence", l.SequenceBits)
		row("worker", l.WorkerBits)
	} else {
		row("worker", l.WorkerBits)
		row("sequence", l.SequenceBits)
	}
	perSecond := math.Ldexp(float64(time.Second), int(l.SequenceBits)) / float64(l.Unit)
	ofAll := math.Ldexp(perSecond, int(l.DatacenterBits+l.WorkerBits))
	fmt.Fprintf(w, "\nIDs per second\t%s for one worker, %s for all\n", texts.Number(perSecond), texts.Number(ofAll))
	fmt.Fprintf(w, "--layout\t%v\n", l)
	fmt.Fprintf(w, "epoch\t%s\n", l.Epoch.Time().Format(time.RFC3339Nano))
	fmt.Fprintf(w, "tick\t%v\n", l.Unit)
	fmt.Fprintf(w, "runs out\t%s\n", l.Expires().Format(time.RFC3339Nano))
	if !now.Before(l.Expires()) {
		fmt.Fprintln(w, "\nThe layout has run out: no more IDs can be issued.")
	}
}
