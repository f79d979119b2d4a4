package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/command"
)

func auditCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:               "audit [FILE...]",
		Short:             "Look for duplicates, gaps and more in many IDs",
		ValidArgsFunction: commands.Files,
	}
	var o audit.Options
	o.Flags(c.Flags())
	layout := layoutFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := o.Check(); err != nil {
			return err
		}
		r, err := audit.New(*layout, s.Now(), o).Read(s, args)
		if err != nil {
			return err
		}
		return r.Print(s, o.Listed, true)
	}
	return c
}
