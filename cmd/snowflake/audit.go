package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/input"
)

func auditCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Look for duplicates, gaps and more in many IDs",
		Long: audit.About + `

"snowflaked audit" does the same, and compares the IDs with the leases of a store:
it finds IDs that were issued without a lease. It also reads a database's table.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	var options input.Options
	options.Flags(c.Flags())
	ordered := c.Flags().Bool("order", false, "the IDs are in the order of issue: an older one is a fault")
	listed := c.Flags().IntP("count", "n", 20, "how `many` of each kind to list")
	layout := layoutFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := command.AtLeast("count", *listed, 1); err != nil {
			return err
		}
		a := audit.New(*layout, s.Now(), *listed)
		a.Ordered = *ordered
		r, err := a.Read(s, options, args)
		if err != nil {
			return err
		}
		return r.Print(s, *listed, true)
	}
	return c
}
