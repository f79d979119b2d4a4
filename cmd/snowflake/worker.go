package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var commandWorker = command{
	name:     "worker",
	synopsis: []string{"-dir DIR"},
	summary:  "list who has leased which worker ID, and until when",
	about: `Lists the worker IDs that were leased from a directory, one a line, below their
layout. The directory is the one that package lease's file store uses, or
"snowflake new -dir". The columns are

` + holding.About,
	setup: setupWorker,
}

func setupWorker(fs *flag.FlagSet) action {
	dir := fs.String("dir", "", "the `directory` of the leases")
	return func(s streams, args []string) error {
		switch {
		case len(args) > 0:
			return fmt.Errorf("worker takes only flags, got %q", args[0])
		}
		if err := checkDir(s, "worker", *dir); err != nil {
			return err
		}
		snap, err := lease.File(*dir).Load(context.Background())
		if err != nil {
			return failed(err)
		}
		switch {
		case s.json:
			err = s.writeJSON(holding.Records(snap))
		case len(snap.Records) == 0:
			fmt.Fprintf(s.out, "no worker ID was ever leased from %s\n", *dir)
		default:
			holding.Write(s.out, snap)
		}
		if err != nil {
			return err
		}
		return failed(holding.Lost(snap))
	}
}

// moment formats a time of an ID.
func moment(t time.Time) string { return holding.Moment(t) }

// plain returns s, in quotes if it is not one plain word.
func plain(s string) string { return holding.Plain(s) }
