package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// layoutsTopic is the help on NAME, SPEC and the flags that change a layout.
func layoutsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "layouts",
		Short: "How to name or write a layout",
		Long: `A layout says how the bits of an ID are shared. It has a name, such as twitter,
or is written as the widths of its fields in bits, from high to low:
  41/10/12       time/worker/sequence
  41/3/7/12      time/clockseq/worker/sequence
  41/0/5/5/12    time/clockseq/datacenter/worker/sequence
and then it counts milliseconds since 2026-01-01. Flags change a layout:
  --unit 10ms          the tick: what the time field counts
  --epoch 2020-01-01   when the time field is 0: a date, RFC 3339, or Unix ms
  --worker-last        the worker has the lowest bits, below the sequence

So do NAME@EPOCH and NAME@EPOCH,TICK, such as sonyflake@2020-01-01,10ms.
"snowflake layout" lists the names; "snowflake layout NAME" draws one.`,
	}
}

func layoutNames() (names []string) {
	for _, k := range layouts.All() {
		names = append(names, k.Name)
	}
	return names
}

// layoutFlags defines the four layout flags, and returns a function that returns
// the layout they ask for.
func layoutFlags(c *cobra.Command) func() (snowflake.Layout, error) {
	name := c.Flags().String("layout", "default", "the `layout`: see snowflake help layouts")
	_ = c.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions(layoutNames(), cobra.ShellCompDirectiveNoFileComp))
	change := layoutChanges(c)
	return func() (snowflake.Layout, error) { return parseLayout(*name, change) }
}

// layoutChanges defines the flags that change a layout, and returns a function that
// makes the changes.
func layoutChanges(c *cobra.Command) func(*snowflake.Layout) {
	var to snowflake.Layout
	fs := c.Flags()
	fs.DurationVar(&to.Unit, "unit", 0, "the `tick` of the layout's time field, such as 10ms")
	fs.Func("epoch", "the `time` at which the layout's time field is 0", func(s string) (err error) {
		to.Epoch, err = texts.Epoch(s)
		return err
	})
	fs.BoolVar(&to.WorkerLast, "worker-last", false, "the worker is below the sequence")
	return func(l *snowflake.Layout) {
		if fs.Changed("unit") {
			l.Unit = to.Unit
		}
		if fs.Changed("epoch") {
			l.Epoch = to.Epoch
		}
		if fs.Changed("worker-last") {
			l.WorkerLast = to.WorkerLast
		}
	}
}

// parseLayout returns the layout of a name or a spec, after change. If the layout is not
// valid, it returns Validate's error.
func parseLayout(s string, change func(*snowflake.Layout)) (snowflake.Layout, error) {
	l, err := texts.Layout(s)
	if err != nil {
		return snowflake.Layout{}, err
	}
	change(&l)
	return l, l.Validate()
}
