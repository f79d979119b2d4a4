package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const aboutHolders = `  worker    the worker ID
  state     held: its holder renews it
            dead: not renewed for a window, so another process may take it
            free: its holder has released it
            spent: it was used once, or was retired, and will not be used again
            lost: its record was lost; it is used again minutes later
  until     IDs may have been issued up to this time, which advances while the
            worker ID is held; the next holder begins there
  clockSeq  the holder's clock sequence
  pid       the process ID of the holder, or of the last holder
  host      the host of that process
  owner     the name that the process gave itself`

const aboutIssuer = `grantedFrom and grantedTo ("from" and "to" in JSON) bound the span of time that the
process was granted: with the worker ID, no other process could issue IDs with times
in the span. It may begin up to a window before the process, because the clock of
the process may be set back.`

func (p *program) workersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "workers",
		Short: command.Short("workers"),
		Long: `Lists the worker IDs of a store, one a line, below their layout. The columns are

` + aboutHolders,
		Args: noArgs,
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

func (p *program) whoisCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "whois ID...",
		Short: command.Short("whois"),
		Long: `Prints the process that had an ID's worker ID at the ID's time, one ID a line. The
layout is that of the store's records. Issuers older than the history are forgotten.

` + aboutIssuer,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("which ID? Write snowflaked whois [--store URL] ID")
			}
			return nil
		},
	}
	p.asks(c, func(ctx context.Context, s lease.Store, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return command.Refused("%w", err)
		}
		return p.writeIssuers(ctx, s, ids)
	})
	return c
}

func (p *program) watermarkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "watermark",
		Short: command.Short("watermark"),
		Long: `Prints an ID below every ID issued under the store from now on: lease.Watermark. If
a holder keeps it back, standard error says which; the ID is still correct.`,
		Args: noArgs,
	}
	p.asks(c, func(ctx context.Context, s lease.Store, _ []string) error { return p.writeWatermark(ctx, s) })
	return c
}

// neverLent is said of a store without holders.
const neverLent = "this store has never lent a worker ID: is it the right store?"

// retire retires a worker ID. A worker ID that does not fit the layout of the leases is refused.
func retire(ctx context.Context, s lease.Store, worker int) error {
	if err := command.AtLeast("retire", worker, 0); err != nil {
		return err
	}
	err := lease.Retire(ctx, s, worker)
	if errors.As(err, new(*lease.RetireError)) {
		if h, _ := lease.ReadHistory(ctx, s); h != nil {
			err = cmp.Or(command.Fits(h.Layout(), snowflake.Parts{Worker: worker}), err)
		}
	}
	return err
}

// writeHolders lists the worker IDs of a store: as a table below their layout, or as JSON. If some
// records cannot be read, it lists the others and returns the error.
func (p *program) writeHolders(ctx context.Context, s lease.Store) error {
	holders, bad := lease.Holders(ctx, s)
	switch {
	case len(holders) == 0 && bad != nil:
	case p.JSON:
		all := append([]lease.Holder{}, holders...) // in JSON [] if there are none
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

// errNobody is returned by writeIssuers if no holder issued one of the IDs, or its holder was
// forgotten.
var errNobody = errors.New("one of the IDs has no known issuer")

// issuer is the JSON of the holder that issued an ID. If the holder is not known, Error has the
// reason.
type issuer struct {
	ID     snowflake.ID   `json:"id"`
	Holder *lease.Holding `json:"holder,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// parseIDs reads the IDs of a command line, in any form.
func parseIDs(args []string) ([]snowflake.ID, error) {
	ids := make([]snowflake.ID, len(args))
	for i, arg := range args {
		readings, err := texts.IDs([]string{arg})
		if err != nil {
			return nil, err
		}
		ids[i] = readings[0].IDs[0]
	}
	return ids, nil
}

// writeIssuers writes the holder that issued each ID, or the reason why there is none, one ID a
// line.
func (p *program) writeIssuers(ctx context.Context, s lease.Store, ids []snowflake.ID) error {
	var nobody error
	for _, id := range ids {
		h, err := lease.Whois(ctx, s, id)
		unknown := errors.Is(err, lease.ErrNeverIssued) || errors.Is(err, lease.ErrForgotten) || errors.Is(err, lease.ErrNotReported)
		if err != nil && !unknown {
			return err
		}
		known := issuer{ID: id, Holder: &h}
		line := fmt.Sprintf("%v owner=%s host=%s pid=%d worker=%d clockSeq=%d grantedFrom=%s grantedTo=%s",
			id, texts.Plain(h.Owner), texts.Plain(h.Host), h.PID, h.Worker, h.ClockSeq, texts.Moment(h.From), texts.Moment(h.To))
		if unknown {
			nobody = errNobody
			known = issuer{ID: id, Error: err.Error()}
			line = fmt.Sprintf("%v %v", id, err)
		}
		if p.JSON {
			err = p.WriteJSON(known)
		} else {
			_, err = fmt.Fprintln(p.Out, line)
		}
		if err != nil {
			return err
		}
	}
	return nobody
}

// watermark has the JSON of the server's answer to GET /watermark.
type watermark struct {
	ID     snowflake.ID `json:"id"`
	HeldBy *keeper      `json:"heldBy,omitempty"`
}

// keeper is the holder that keeps a watermark back.
type keeper struct {
	Worker int    `json:"worker"`
	Owner  string `json:"owner"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Behind string `json:"behind"` // as protobuf writes durations
	Why    string `json:"why"`
}

// errHeld is matched by the error of writeWatermark if a holder keeps the watermark back.
var errHeld = errors.New("the watermark is held back")

// writeWatermark writes the watermark of a store. If a holder keeps the watermark back, JSON names
// the holder, and so does the error, which matches errHeld.
func (p *program) writeWatermark(ctx context.Context, s lease.Store) error {
	m, err := lease.Watermark(ctx, s)
	if err != nil {
		return err
	}
	shown := watermark{ID: m.ID}
	if h := m.HeldBy; h != nil {
		behind := time.Since(h.Layout.Decode(m.ID).Time).Round(time.Millisecond)
		shown.HeldBy = &keeper{h.Worker, h.Owner, h.Host, h.PID, fmt.Sprintf("%.3fs", behind.Seconds()), m.Why}
		err = fmt.Errorf("%w, by %v: %s: %v", errHeld, behind, m.Why, h)
	}
	if p.JSON {
		return errors.Join(p.WriteJSON(shown), err)
	}
	_, failed := fmt.Fprintln(p.Out, m.ID)
	return errors.Join(failed, err)
}
