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
		Args:  commands.NoArgs,
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
