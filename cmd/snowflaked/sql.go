package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) sqlCommand() *cobra.Command {
	c := &cobra.Command{
		Use:       "sql [postgres] --generate --worker N",
		Short:     "Print functions that issue IDs, for a worker ID that no process has ever had",
		ValidArgs: []string{string(sqltext.PostgreSQL), "postgresql"},
	}
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && !slices.Contains(c.ValidArgs, args[0]) {
			return fmt.Errorf("sql --generate is for postgres alone, got %q", strings.Join(args, " "))
		}
		return nil
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
