package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/command"
)

func auditCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Look for duplicates, gaps and more in many IDs",
		Long: audit.About + `

"snowflaked audit" does the same, and compares the IDs with the leases of a store:
it finds IDs that were issued without a lease. It also reads a database's table.

` + audit.AboutJSON,
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
