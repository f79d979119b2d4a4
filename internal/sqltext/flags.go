package sqltext

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/seed-5394e6b1/snowflake/internal/command"
)

// Flags defines --generate, which it returns, and the flags of g, except that of the layout.
func (g *Generator) Flags(fs command.FlagSet) (generate *bool) {
	generate = new(bool)
	fs.BoolVar(generate, "generate", false, "print functions that issue IDs")
	fs.IntVar(&g.Worker, "worker", 0, "the worker `ID` of the database, with --generate")
	fs.IntVar(&g.Datacenter, "datacenter", 0, "`NUMBER` of the datacenter, if the layout has datacenters, with --generate")
	fs.StringVar(&g.Schema, "schema", "public", "`NAME` of the schema of the functions, with --generate")
	fs.StringVar(&g.Prefix, "prefix", "snowflake_", "`TEXT` at the beginning of the functions' names")
	fs.StringVar(&g.Fence, "follow", "", "`NAME` of the fence, if package follow reads the rows, with --generate")
	return generate
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,30}$`)

// checkName returns an error if the value of a flag is not a name.
func checkName(flag, value string) error {
	if !name.MatchString(value) {
		return fmt.Errorf("--%s %q is not a name: want up to 31 letters, digits and underscores, and no digit first", flag, value)
	}
	return nil
}

// Generated has the JSON of a generator's script, and of the range that the leases need.
type Generated struct {
	Count int    `json:"count"` // lease.Options.Count
	First int    `json:"first"` // lease.Options.First
	SQL   string `json:"sql"`
}

// Generate returns the script for an engine, which must be PostgreSQL.
func (g *Generator) Generate(e Engine) (Generated, error) {
	if err := cmp.Or(checkName("prefix", g.Prefix), checkName("schema", g.Schema)); err != nil {
		return Generated{}, err
	}
	if e != PostgreSQL {
		return Generated{}, fmt.Errorf("--generate is for %s: in other databases a default cannot call a function; "+
			"docs/sql.md says what to do instead", PostgreSQL)
	}
	script, err := g.Script()
	first, count := g.Leases()
	return Generated{count, first, script}, err
}
