package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
)

func newCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "new",
		Short: "Print new IDs",
		Long: `Prints new IDs, one a line.

HAZARD: two invocations with the same --worker can issue the same IDs: if they run
at the same time, if they follow each other within a tick of the layout, or if the
clock is set back in between. For IDs you keep, use "snowflaked new": it leases a
worker ID from a directory or another store, and no other invocation issues the
same IDs, at the same time or later, whatever the clock does.`,
		Args: noArgs,
	}
	n := c.Flags().IntP("ids", "n", 1, "how `many` IDs")
	decode := c.Flags().Bool("decode", false, "print the fields after each ID")
	worker := c.Flags().Int("worker", 0, "the worker `ID`")
	datacenter := c.Flags().Int("datacenter", 0, "the datacenter's `number`, if the layout has datacenters")
	layout := layoutFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *n < 1 {
			return fmt.Errorf("--ids %d is under 1", *n)
		}
		g, err := snowflake.New(*worker, &snowflake.Options{Layout: *layout, Datacenter: *datacenter})
		if err != nil {
			return err
		}
		return s.Issue(c.Context(), g, *n, *decode)
	}
	return c
}
