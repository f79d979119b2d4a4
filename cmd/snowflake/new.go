package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
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
		Args: commands.NoArgs,
	}
	var n command.NewFlags
	n.Define(c.Flags())
	worker := c.Flags().Int("worker", 0, "the worker `ID`")
	layout := layoutFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if err := n.Check(); err != nil {
			return err
		}
		g, err := snowflake.New(*worker, &snowflake.Options{Layout: *layout, Datacenter: n.Datacenter})
		if err != nil {
			return err
		}
		return s.Issue(c.Context(), g, n)
	}
	return c
}
