// Package holding lists the worker IDs of a store and their holders, for the commands.
package holding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// About explains the columns of Write.
const About = `  worker    the worker ID
  state     held: its holder renews it
            dead: not renewed for a window, so another process may take it
            free: its holder has given it back
            spent: it was used once, and will not be used again
            lost: its record was lost; it is used again minutes later
  until     IDs may have been issued up to this time, which advances while the
            worker ID is held; the next holder begins there
  clockseq  the holder's clock sequence
  pid       the process ID of the holder, or of the last holder
  host      the host of that process
  owner     the name that it gave itself
`

// Write writes a table of the records of lease.Holders. All records should have one layout. If they
// do not, the table names the layout whenever it changes.
func Write(out io.Writer, records []lease.Record) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	var l snowflake.Layout
	for _, r := range records {
		if r.Layout != l {
			l = r.Layout
			fmt.Fprintf(w, "layout: %v\n", l)
			fmt.Fprintln(w, "worker\tstate\tuntil\tclockseq\tpid\thost\towner")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Worker, r.State,
			Moment(r.Bound()), r.ClockSeq, r.PID, Plain(r.Host), Plain(r.Owner))
	}
}

// Issuer is the holder that issued an ID, as JSON. If the holder is not known, it says why.
type Issuer struct {
	ID     snowflake.ID   `json:"id"`
	Holder *lease.Holding `json:"holder,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// Whois returns the holding in which an ID was issued. If nobody can have issued the ID, or if its
// issuer was forgotten, unknown says so. If the store fails, err is its error.
func Whois(ctx context.Context, s lease.Store, id snowflake.ID) (h lease.Holding, unknown, err error) {
	h, err = lease.Whois(ctx, s, id)
	if errors.Is(err, lease.ErrNeverIssued) || errors.Is(err, lease.ErrForgotten) {
		return h, err, nil
	}
	return h, nil, err
}

// Line returns a line of text that names the issuer of an ID.
func Line(id snowflake.ID, h lease.Holding) string {
	return fmt.Sprintf("%v owner=%s host=%s pid=%d worker=%d clockseq=%d from=%s to=%s\n",
		id, Plain(h.Owner), Plain(h.Host), h.PID, h.Worker, h.ClockSeq, Moment(h.From), Moment(h.To))
}

// Moment formats a time of an ID.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Plain returns s, in quotes if it is not one plain word.
func Plain(s string) string {
	if quoted := strconv.Quote(s); s == "" || strings.Contains(s, " ") || quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}
