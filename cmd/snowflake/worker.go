package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var commandWorker = command{
	name:     "worker",
	synopsis: []string{"-dir DIR"},
	summary:  "list who has leased which worker ID, and until when",
	about: `Lists the worker IDs that were leased from a directory, one a line, below the
layout that they are for. The directory is one of package lease's file store, or
of "snowflake new -lease". The columns are

  worker    the worker ID
  state     held: its holder renews it
            dead: its holder has not renewed it for a window, so that another
            one may take it
            free: its holder has given it back
            spent: it was used once, and will not be used again
  until     IDs may have been stamped up to this time, which moves on while the
            worker ID is held; the next holder begins there
  clockseq  the clock sequence that the holder stamps
  pid       the process ID of the holder, or of the last one
  host      where that runs
  owner     the name that it gave itself
`,
	setup: setupWorker,
}

func setupWorker(fs *flag.FlagSet) action {
	dir := fs.String("dir", "", "the `directory` of the leases")
	return func(s streams, args []string) error {
		switch {
		case len(args) > 0:
			return fmt.Errorf("worker takes no arguments beside flags, got %q", args[0])
		}
		if err := checkDir(s, "worker", *dir); err != nil {
			return err
		}
		snap, err := lease.File(*dir).Load(context.Background())
		if err != nil {
			return failed(err)
		}
		if s.json {
			return s.writeJSON(listed(snap))
		}
		if len(snap.Records) == 0 {
			fmt.Fprintf(s.out, "no worker ID was ever leased from %s\n", *dir)
			return nil
		}
		listWorkers(s.out, snap)
		return nil
	}
}

// listWorkers writes a table of the records, sorted by worker. There should be
// one layout; where there are more, the table says where they change.
func listWorkers(out io.Writer, snap lease.Snapshot) {
	slices.SortFunc(snap.Records, func(a, b lease.Record) int { return cmp.Compare(a.Worker, b.Worker) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	var l snowflake.Layout
	for _, r := range snap.Records {
		if r.Layout != l {
			l = r.Layout
			fmt.Fprintf(w, "layout: %v\n", l)
			fmt.Fprintln(w, "worker\tstate\tuntil\tclockseq\tpid\thost\towner")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", r.Worker, state(r, snap.Now),
			moment(r.Bound()), r.ClockSeq, r.PID, plain(r.Host), plain(r.Owner))
	}
}

// listedWorker is a record as JSON.
type listedWorker struct {
	State string `json:"now"` // with "dead" among the states
	lease.Record
}

func listed(snap lease.Snapshot) []listedWorker {
	slices.SortFunc(snap.Records, func(a, b lease.Record) int { return cmp.Compare(a.Worker, b.Worker) })
	list := []listedWorker{}
	for _, r := range snap.Records {
		list = append(list, listedWorker{state(r, snap.Now), r})
	}
	return list
}

// moment formats a time of an ID.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// state returns r's state, at the store's time now.
func state(r lease.Record, now time.Time) string {
	if r.State == lease.Held && !r.Live(now) {
		return "dead"
	}
	return string(r.State)
}

// plain returns s, in quotes where it would not be one plain word.
func plain(s string) string {
	if quoted := strconv.Quote(s); s == "" || strings.Contains(s, " ") || quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}
