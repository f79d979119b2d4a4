package main

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

var sqlName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,30}$`)

func sqlCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "sql postgres|mysql|sqlite|clickhouse",
		Short: "Print functions that decode IDs in a database",
		Long: `Prints functions to paste into a migration. time, worker, sequence and so on
return the fields of an ID. valid tells whether a number is an ID of the layout.
first returns the first ID at or after a time, for queries such as
WHERE id >= first(a) AND id < first(b). No extension is needed. Times are in
UTC. mysql is for MariaDB too. SQLite has no CREATE FUNCTION: for it there are
expressions. The functions for ClickHouse are untested.`,
		Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	for _, e := range sqltext.Engines() {
		c.ValidArgs = append(c.ValidArgs, string(e))
	}
	prefix := c.Flags().String("prefix", "snowflake_", "the `text` with which their names begin")
	layout := layoutFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if !sqlName.MatchString(*prefix) {
			return fmt.Errorf("--prefix %q is not a name: want up to 31 letters, digits and underscores, and no digit first", *prefix)
		}
		engine := sqltext.Engine(args[0])
		script, err := sqltext.Script(engine, *layout, *prefix)
		if err != nil {
			return err
		}
		if !s.json {
			s.out.WriteString(script)
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
		return s.writeJSON(bodies)
	}
	return c
}
