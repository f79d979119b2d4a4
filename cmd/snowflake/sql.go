package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/cli/sqltext"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var sqlName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,30}$`)

func sqlCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "sql DATABASE",
		Short: "Print functions that decode IDs in a database",
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
need. With --store the command fails if a process holds the worker ID, or may
still issue IDs with it.

HAZARD: if two databases have the same worker ID, for example a copy beside the
original, IDs can repeat. docs/sql.md says what to do after a failover, a restore
and a dump.`,
		Args: func(c *cobra.Command, args []string) error {
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
	prefix := c.Flags().String("prefix", "snowflake_", "the `text` with which their names begin")
	layout := layoutFlag(c)
	var g sqltext.Generator
	generates := c.Flags().Bool("generate", false, "print functions that issue IDs")
	c.Flags().IntVar(&g.Worker, "worker", 0, "the worker `ID` of the database, with --generate")
	c.Flags().IntVar(&g.Datacenter, "datacenter", 0, "the datacenter's `number`, if the layout has datacenters, with --generate")
	c.Flags().StringVar(&g.Schema, "schema", "public", "the `name` of the schema of the functions, with --generate")
	c.Flags().StringVar(&g.Fence, "follow", "", "the `name` of the fence, if package follow reads the rows, with --generate")
	store := storeFlag(c)
	c.PreRunE = store.mustExist
	c.MarkFlagsRequiredTogether("generate", "worker")
	c.RunE = func(_ *cobra.Command, args []string) error {
		for flag, name := range map[string]string{"prefix": *prefix, "schema": g.Schema} {
			if !sqlName.MatchString(name) {
				return fmt.Errorf("--%s %q is not a name: want up to 31 letters, digits and underscores, and no digit first",
					flag, name)
			}
		}
		engine := sqltext.Engine(args[0])
		if *generates {
			g.Layout, g.Prefix = *layout, *prefix
			return generate(c.Context(), s, engine, g, store.dir)
		}
		for _, flag := range []string{"datacenter", "schema", "follow", "store"} {
			if c.Flags().Changed(flag) {
				return fmt.Errorf("--%s needs --generate", flag)
			}
		}
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

// databases returns the names of all databases.
func databases(separator string) string {
	var names []string
	for _, e := range sqltext.Engines() {
		names = append(names, string(e))
	}
	return strings.Join(names, separator)
}

// generate writes the functions of g, unless a lease in dir has the worker ID. If dir is empty, no
// leases are checked.
func generate(ctx context.Context, s *streams, e sqltext.Engine, g sqltext.Generator, dir string) error {
	if e != sqltext.PostgreSQL {
		return errors.New("--generate is for postgres: in other databases a default cannot call a function; " +
			"docs/sql.md says what to do instead")
	}
	script, err := g.Script()
	if err != nil {
		return err
	}
	if dir != "" {
		if err := unheld(ctx, s, lease.File(dir), g); err != nil {
			return failed(err)
		}
	}
	if s.json {
		first, count := g.Leases()
		return s.writeJSON(map[string]any{"sql": script, "first": first, "count": count})
	}
	s.out.WriteString(script)
	s.note(g.About())
	return nil
}

// unheld returns an error if the leases have another layout, or if a process holds the worker ID or
// may still issue IDs with it.
func unheld(ctx context.Context, s *streams, store lease.Store, g sqltext.Generator) error {
	holders, err := lease.Holders(ctx, store)
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		s.note("this store has never lent a worker ID: is it the right store?")
	}
	for _, h := range holders {
		// A directory whose worker ID was retired may come back.
		over := h.State == lease.StateSpent && h.Reuse != lease.ReuseKeep ||
			h.State == lease.StateFree && h.Reuse == lease.ReuseAny
		switch {
		case h.Layout != g.Layout:
			return fmt.Errorf("the leases have the layout %v, and not %v", h.Layout, g.Layout)
		case h.Worker == g.Worker && (!over || s.now().Before(h.To)):
			return fmt.Errorf("%v: choose another worker ID", h)
		}
	}
	return nil
}
