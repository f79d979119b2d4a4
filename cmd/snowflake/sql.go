package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

func sqlCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "sql DATABASE",
		Short: "Print functions that decode IDs in a database, or a column's default that issues them",
		Long: `Prints functions to paste into a migration. time, worker, sequence and so on
return the fields of an ID. valid tells whether a number is an ID of the layout.
first returns the first ID at or after a time, for queries such as
WHERE id >= first(a) AND id < first(b). No extension is needed. Times are in
UTC. mysql is also for MariaDB. SQLite has no CREATE FUNCTION, so sqlite prints
expressions. docs/sql.md says which functions are tested, and has the formula for
other databases. The databases are
  ` + databases("\n  ") + `

With --generate it prints functions for PostgreSQL that issue IDs: id(), for a
column's DEFAULT, and ids(n). They have a worker ID of their own, which no lease
may have: standard error says which lease.Options.First and Count the leases
need. "snowflaked sql --generate" prints the same, and first checks in the store
of the leases that the worker ID was never leased.

HAZARD: if two databases have the same worker ID, for example a copy beside the
original, IDs can repeat. docs/sql.md says what to do after a failover, a restore
and a dump.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "postgresql" { // as in a database's URL
				args[0] = string(sqltext.PostgreSQL)
			}
			if len(args) == 1 && slices.Contains(c.ValidArgs, args[0]) {
				return nil
			}
			no := ""
			if len(args) == 1 {
				no = fmt.Sprintf("%q is not known: ", args[0])
			}
			return fmt.Errorf("%sname one of the databases %s; docs/sql.md has the formula for others", no, databases(", "))
		},
	}
	for _, e := range sqltext.Engines() {
		c.ValidArgs = append(c.ValidArgs, string(e))
	}
	layout := layoutFlag(c)
	var g sqltext.Generator
	generate := g.Flags(c.Flags())
	c.RunE = func(_ *cobra.Command, args []string) error {
		engine := sqltext.Engine(args[0])
		if *generate {
			if !c.Flags().Changed("worker") {
				return errors.New("--generate needs --worker N: a worker ID that no lease may have")
			}
			g.Layout = *layout
			made, err := g.Generate(engine)
			if err != nil {
				return err
			}
			if s.JSON {
				return s.WriteJSON(made)
			}
			s.Out.WriteString(made.SQL)
			s.Note("%s", g.About())
			return nil
		}
		for _, flag := range []string{"worker", "datacenter", "schema", "follow"} {
			if c.Flags().Changed(flag) {
				return fmt.Errorf("--%s needs --generate", flag)
			}
		}
		script, err := sqltext.Script(engine, *layout, g.Prefix)
		if err != nil {
			return err
		}
		if !s.JSON {
			s.Out.WriteString(script)
			return nil
		}
		functions, err := sqltext.Functions(engine, *layout)
		if err != nil {
			return err
		}
		bodies := map[string]string{}
		for _, f := range functions {
			bodies[f.Name] = f.Body
		}
		return s.WriteJSON(bodies)
	}
	return c
}

// databases returns the names of all databases.
func databases(separator string) string {
	var names []string
	for _, e := range sqltext.Engines() {
		names = append(names, string(e))
	}
	return strings.Join(names, separator)
}
