package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) sqlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sql [postgres] --generate --worker N",
		Short: "Print functions that issue IDs, for a worker ID that no process has ever had",
		Long: `Prints functions for PostgreSQL that issue IDs, for a column's DEFAULT, as
"snowflake sql postgres --generate" does. First it checks in the store that the
worker ID was never leased, and that the leases have the same layout. Standard error
has the range of worker IDs that the leases need.`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{string(sqltext.PostgreSQL), "postgresql"},
	}
	var g sqltext.Generator
	generate := g.Flags(c.Flags())
	layoutFlag(c, &g.Layout)
	p.asks(c, func(ctx context.Context, store lease.Store, _ []string) error {
		if !*generate || !c.Flags().Changed("worker") {
			return command.Refused("sql needs --generate and --worker; \"snowflake sql\" prints functions that decode IDs")
		}
		made, err := g.Generate(sqltext.PostgreSQL)
		if err != nil {
			return command.Refused("%w", err)
		}
		lent, err := unleased(ctx, store, g.Layout, g.Worker)
		if err != nil {
			return err
		}
		if !lent {
			p.Note(neverLent)
		}
		if p.JSON {
			return p.WriteJSON(made)
		}
		p.Note("%s", g.About())
		_, err = p.Out.WriteString(made.SQL)
		return err
	})
	return c
}
