package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/seed-5394e6b1/snowflake/internal/cli/holding"
	"github.com/seed-5394e6b1/snowflake/internal/cli/sqltext"
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const aboutSQL = `snowflaked sql --generate prints functions for PostgreSQL that issue IDs, for a column's DEFAULT, as
"snowflake sql --generate postgres" does. First it looks into the store: the exit status is 1 if the worker
ID is leased, or was, or if the leases have another layout. Standard error says which range the leases need.

usage:
  snowflaked sql [--store URL] --generate --worker N [--layout NAME|SPEC] [--json]
`

// generateSQL is the command sql.
func generateSQL(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	fs := newFlags()
	var g sqltext.Generator
	generate := fs.Bool("generate", false, "print functions that issue IDs")
	g.Flags(fs)
	layout := layoutFlag(fs)
	return ask(ctx, fs, aboutSQL, args, getenv, stdout, func(ctx context.Context, store lease.Store, asJSON bool, args []string) (err error) {
		if err := noArgs("sql", args); err != nil {
			return err
		}
		if !*generate || g.Worker < 0 {
			return refused("sql needs --generate and --worker; \"snowflake sql\" prints functions that decode IDs")
		}
		if g.Layout, err = texts.Layout(*layout); err != nil {
			return refused("--layout: %w", err)
		}
		if err := g.CheckNames(); err != nil {
			return usageError{err}
		}
		made, err := g.Generate(sqltext.PostgreSQL)
		if err != nil {
			return usageError{err}
		}
		lent, err := holding.Unleased(ctx, store, g.Layout, g.Worker)
		if err != nil {
			return err
		}
		if !lent {
			fmt.Fprintln(stderr, holding.NeverLent)
		}
		if asJSON {
			return json.NewEncoder(stdout).Encode(made)
		}
		fmt.Fprintln(stderr, g.About())
		_, err = io.WriteString(stdout, made.SQL)
		return err
	})
}
