package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) workersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "workers",
		Short: command.Short("workers"),
		Args:  commands.NoArgs,
	}
	worker := c.Flags().Int("retire", 0, "first retire the worker ID `N`, because the directory of its local copy is gone for\n"+
		"good; this takes up to a window. HAZARD: if the directory comes back while the\n"+
		"store is away, readers of the watermark may miss rows")
	p.asks(c, func(ctx context.Context, s lease.Store, _ []string) error {
		if c.Flags().Changed("retire") {
			if err := retire(ctx, s, *worker); err != nil {
				return err
			}
		}
		return p.writeHolders(ctx, s)
	})
	return c
}

// neverLent is said of a store without holders.
const neverLent = "this store has never lent a worker ID: is it the right store? " + ifNew

// retire retires a worker ID. A worker ID that does not fit the layout of the leases is refused.
func retire(ctx context.Context, s lease.Store, worker int) error {
	if err := command.AtLeast("retire", worker, 0); err != nil {
		return err
	}
	err := lease.Retire(ctx, s, worker)
	if errors.Is(err, lease.ErrNotRetired) {
		if h, _ := lease.ReadHistory(ctx, s); h != nil {
			err = cmp.Or(command.Fits(h.Layout(), snowflake.Parts{Worker: worker}), err)
		}
	}
	return err
}

// worker is a holder in JSON, with its layout as --layout reads it.
type worker struct {
	lease.Holder
	Layout string `json:"layout"`
}

// writeHolders lists the worker IDs of a store: as a table below their layout, or as JSON. If some
// records cannot be read, it lists the others and returns the error.
func (p *program) writeHolders(ctx context.Context, s lease.Store) error {
	holders, bad := lease.Holders(ctx, s)
	switch {
	case len(holders) == 0 && bad != nil:
	case p.JSON:
		if len(holders) == 0 {
			p.Note(neverLent)
		}
		all := []worker{} // in JSON [] if there are none
		for _, h := range holders {
			all = append(all, worker{h, h.Layout.String()})
		}
		return errors.Join(p.WriteJSON(all), bad)
	case len(holders) == 0:
		fmt.Fprintln(p.Out, neverLent)
	default:
		table(p.Out, holders)
	}
	return bad
}

// unleased returns an error if the worker ID is leased or was, or if the leases have another
// layout. It reports whether the store has ever lent a worker ID.
func unleased(ctx context.Context, s lease.Store, l snowflake.Layout, worker int) (lent bool, err error) {
	holders, err := lease.Holders(ctx, s)
	if err != nil {
		return false, err
	}
	for _, h := range holders {
		switch {
		case h.Layout != l:
			return true, fmt.Errorf("the leases have the layout %v, and not %v", h.Layout, l)
		case h.Worker == worker:
			return true, fmt.Errorf("%v: choose a worker ID that was never leased", h)
		}
	}
	return len(holders) > 0, nil
}

// table writes a table of holders. All should have one layout. If they do not, it names the layout
// whenever it changes.
func table(out io.Writer, holders []lease.Holder) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	var l snowflake.Layout
	for _, r := range holders {
		if r.Layout != l {
			l = r.Layout
			fmt.Fprintf(w, "layout: %v\n", l)
			fmt.Fprintln(w, "worker\tstate\tuntil\tclockSeq\tpid\thost\towner")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Worker, r.State,
			texts.Moment(r.To), r.ClockSeq, r.PID, texts.Plain(r.Host), texts.Plain(r.Owner))
	}
}
