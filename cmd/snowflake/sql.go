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
			return fmt.Errorf("%sname one of the databases %s; docs/sql.md has the formula for others", no, strings.Join(c.ValidArgs, ", "))
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
