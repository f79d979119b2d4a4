package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func workerCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "worker --dir DIR",
		Short: "List who has leased which worker ID, and until when",
		Long: `Lists the worker IDs that were leased from a directory, one a line, below their
layout. The directory is the one that package lease's file store uses, or
"snowflake new --dir". The columns are

` + holding.About,
		Args: noArgs,
	}
	dir := neededDir(c)
	c.RunE = func(*cobra.Command, []string) error {
		records, bad := lease.Holders(context.Background(), lease.File(*dir))
		var err error
		switch {
		case len(records) == 0 && bad != nil:
		case s.json:
			err = s.writeJSON(append([]lease.Record{}, records...)) // [] if there are none
		case len(records) == 0:
			fmt.Fprintf(s.out, "no worker ID was ever leased from %s\n", *dir)
		default:
			holding.Write(s.out, records)
		}
		if err != nil {
			return err
		}
		return failed(bad)
	}
	return c
}

// moment formats a time of an ID.
func moment(t time.Time) string { return holding.Moment(t) }

// plain returns s, in quotes if it is not one plain word.
func plain(s string) string { return holding.Plain(s) }
