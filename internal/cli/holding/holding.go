// Package holding says who holds the worker IDs of a store, for the commands.
package holding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// About explains the columns of WriteHolders.
const About = `  worker    the worker ID
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
  owner     the name that it gave itself
`

// AboutIssuer explains the times that WriteIssuers writes.
const AboutIssuer = `grantedFrom and grantedTo are the span of time that the process was granted ("from"
and "to" in JSON): no other process could issue IDs of it with the worker ID. The
span may begin up to a window before the process, because its clock may be set
back.`

// AboutRetire explains the flag --retire of the commands that write holders, beside Retire.
const AboutRetire = "first retire the worker ID `N`, because the directory of its local copy is gone for\n" +
	"good; this takes up to a window. HAZARD: if the directory comes back while the\n" +
	"store is away, readers of the watermark may miss rows. -1: none"

// Unretired is the default of --retire.
const Unretired = -1

// NeverLent is said of a store without holders.
const NeverLent = "this store has never lent a worker ID: is it the right store?"

// WriteHolders lists the worker IDs of a store: as a table below their layout, or as JSON. If some
// records cannot be read, it lists the others and returns the error. It first retires the worker ID
// retire, unless that is Unretired.
func WriteHolders(ctx context.Context, out io.Writer, s lease.Store, retire int, asJSON bool) error {
	if retire != Unretired {
		if err := lease.Retire(ctx, s, retire); err != nil {
			return err
		}
	}
	holders, bad := lease.Holders(ctx, s)
	switch {
	case len(holders) == 0 && bad != nil:
	case asJSON:
		all := append([]lease.Holder{}, holders...) // in JSON [] if there are none
		return errors.Join(json.NewEncoder(out).Encode(all), bad)
	case len(holders) == 0:
		fmt.Fprintln(out, NeverLent)
	default:
		table(out, holders)
	}
	return bad
}

// Unleased returns an error if the worker ID is leased or was, or if the leases have another layout.
// It reports whether the store has ever lent a worker ID.
func Unleased(ctx context.Context, s lease.Store, l snowflake.Layout, worker int) (lent bool, err error) {
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
			Moment(r.To), r.ClockSeq, r.PID, plain(r.Host), plain(r.Owner))
	}
}

// ErrNobody is returned by WriteIssuers if one of the IDs was issued by nobody, or by a holder that
// was forgotten.
var ErrNobody = errors.New("one of the IDs has no known issuer")

// issuer is the JSON of the holder that issued an ID. If the holder is not known, Error says why.
type issuer struct {
	ID     snowflake.ID   `json:"id"`
	Holder *lease.Holding `json:"holder,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// ParseIDs reads the IDs of a command line, in any form.
func ParseIDs(args []string) ([]snowflake.ID, error) {
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

// WriteIssuers writes who issued each ID, or why no holder can have issued it, one ID a line.
func WriteIssuers(ctx context.Context, out io.Writer, s lease.Store, asJSON bool, ids []snowflake.ID) error {
	var nobody error
	for _, id := range ids {
		h, err := lease.Whois(ctx, s, id)
		unknown := errors.Is(err, lease.ErrNeverIssued) || errors.Is(err, lease.ErrForgotten) || errors.Is(err, lease.ErrNotReported)
		if err != nil && !unknown {
			return err
		}
		known := issuer{ID: id, Holder: &h}
		line := fmt.Sprintf("%v owner=%s host=%s pid=%d worker=%d clockSeq=%d grantedFrom=%s grantedTo=%s",
			id, plain(h.Owner), plain(h.Host), h.PID, h.Worker, h.ClockSeq, Moment(h.From), Moment(h.To))
		if unknown {
			nobody = ErrNobody
			known = issuer{ID: id, Error: err.Error()}
			line = fmt.Sprintf("%v %v", id, err)
		}
		if asJSON {
			err = json.NewEncoder(out).Encode(known)
		} else {
			_, err = fmt.Fprintln(out, line)
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

// ErrHeld is matched by the error of WriteWatermark if a holder keeps the watermark back.
var ErrHeld = errors.New("the watermark is held back")

// WriteWatermark writes the watermark of a store. If a holder keeps the watermark back, JSON names
// the holder, and so does the error, which matches ErrHeld.
func WriteWatermark(ctx context.Context, out io.Writer, s lease.Store, asJSON bool) error {
	m, err := lease.Watermark(ctx, s)
	if err != nil {
		return err
	}
	shown := watermark{ID: m.ID}
	if h := m.HeldBy; h != nil {
		behind := time.Since(h.Layout.Decode(m.ID).Time).Round(time.Millisecond)
		shown.HeldBy = &keeper{h.Worker, h.Owner, h.Host, h.PID, fmt.Sprintf("%.3fs", behind.Seconds()), m.Why}
		err = fmt.Errorf("%w, by %v: %s: %v", ErrHeld, behind, m.Why, h)
	}
	if asJSON {
		return errors.Join(json.NewEncoder(out).Encode(shown), err)
	}
	_, failed := fmt.Fprintln(out, m.ID)
	return errors.Join(failed, err)
}

// Moment formats a time of an ID.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Who names the process of a holding.
func Who(h *lease.Holding) string {
	return fmt.Sprintf("%s (%s, pid %d)", plain(h.Owner), plain(h.Host), h.PID)
}

// plain returns s, in quotes if it is not one plain word.
func plain(s string) string {
	if quoted := strconv.Quote(s); s == "" || strings.Contains(s, " ") || quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}
