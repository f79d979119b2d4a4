package sqltext

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/fencesql"
)

// ErrState is returned by Generator.Script if a sequence of PostgreSQL cannot hold the state, or if
// a tick is longer than a call may wait for it.
var ErrState = errors.New("the function's state has room for 41 bits of time and 20 of sequence, and for ticks of up to a second")

// Generator is a function of PostgreSQL that returns new IDs, for a column's DEFAULT.
type Generator struct {
	Layout             snowflake.Layout
	Worker, Datacenter int
	Schema, Prefix     string // the schema of the functions, and the prefix of their names
	Fence              string // the name of the follow.Fence of the IDs; empty: none
}

const (
	ahead   = 10 * time.Second // the limit by which an ID may be ahead of the clock
	reserve = time.Second      // the least time from a tick that is opened to the bound on disk
	longest = time.Second      // the limit of a layout's tick

	// patience is the limit of a wait for the clock. After a crash, the first tick is one above the
	// bound, which may exceed the limit of ahead by reserve.
	patience = reserve + longest
)

// empty is the state of a new sequence, and of one that a crash has emptied: tick -1.
const empty = -1 << 22

//go:embed generate.sql
var generate string

// Script returns statements that create the function. They may be run again. The state is named
// after the worker ID and not after the function, so that two functions with one worker ID share
// it.
func (g Generator) Script() (string, error) {
	l := g.Layout
	fixed, err := l.Encode(snowflake.Parts{Time: l.Epoch.Time(), Worker: g.Worker, Datacenter: g.Datacenter})
	switch {
	case err != nil:
		return "", err
	case l.TimeBits > 41 || l.SequenceBits > 20 || l.Unit > longest:
		return "", fmt.Errorf("%v: %w", l, ErrState)
	case l.Unit%time.Microsecond != 0 && time.Microsecond%l.Unit != 0:
		return "", fmt.Errorf("unit %v: %w", l.Unit, ErrUnit)
	}
	tick := fmt.Sprintf("micros / %d", l.Unit/time.Microsecond)
	if l.Unit < time.Microsecond {
		tick = fmt.Sprintf("micros * %d", time.Microsecond/l.Unit)
	}
	schema, state := g.Schema, fmt.Sprintf("snowflake_worker_%d", g.Worker)
	if l.DatacenterBits > 0 {
		state = fmt.Sprintf("snowflake_worker_%d_%d", g.Datacenter, g.Worker)
	}
	var grants strings.Builder
	grant := func(right string) { fmt.Fprintf(&grants, "--   GRANT %s TO ...;\n", right) }
	if schema != "public" {
		schema = fencesql.Quote(schema)
		grant("USAGE ON SCHEMA " + schema)
	}
	sequence := schema + "." + state
	bound := sequence + "_bound"
	grant("USAGE ON SEQUENCE " + sequence)
	grant("EXECUTE ON FUNCTION " + schema + "." + g.Prefix + "open(bigint)")
	shift := writer{l: l}.shift()
	number := fmt.Sprintf("(state & bigint '%d')", ones(int(l.SequenceBits)))
	if l.WorkerLast {
		number = fmt.Sprintf("(%s << %d)", number, l.WorkerBits)
	}
	mark, least, above, hint := "", "tick", "bigint '-1'",
		"The clock was set back, or was ahead when an ID was drawn. Set it right, or wait."
	if g.Fence != "" {
		name := g.Fence
		if !strings.Contains(name, ".") {
			name = g.Schema + "." + name
		}
		if err := fencesql.CheckName(name); err != nil {
			return "", fmt.Errorf("--follow: %w", err)
		}
		if of, _, _ := strings.Cut(name, "."); of != "public" && of != g.Schema {
			grant("USAGE ON SCHEMA " + fencesql.Quote(of))
		}
		grant("USAGE ON SEQUENCE " + fencesql.Quote(name+"_mark"))
		mark = "  -- The lock of the fence, until the transaction ends; and then the tick that readers have reached.\n" +
			"  mark   bigint := (" + strings.TrimPrefix(fencesql.Check(name), "SELECT ") + fmt.Sprintf(") >> %d;\n", shift)
		least, above = "greatest(tick, mark + 1)", "mark"
		hint = "The clock was set back, or the clock of another writer is ahead. Set it right, or wait."
	}
	return fill(generate, "{schema}", schema, "{prefix}", g.Prefix, "{sequence}", sequence, "{name}", state,
		"{bound}", bound, "{empty}", fmt.Sprint(empty), "{full}", fmt.Sprint(ones(int(l.SequenceBits))+1),
		"{grants}", grants.String(), "{layout}", l.String(),
		"{worker}", fmt.Sprint(g.Worker), "{about}", g.About(),
		"{micros}", fmt.Sprintf("(date_part(text 'epoch', clock_timestamp()) * float8 '1000000')::bigint - %d", l.Epoch.Time().UnixMicro()),
		"{tick}", tick, "{seconds}", fmt.Sprint(l.Unit.Seconds()),
		"{epoch}", l.Epoch.Time().Format(time.RFC3339), "{expires}", l.Expires().Format(time.RFC3339),
		"{last}", fmt.Sprint(ones(int(l.SequenceBits))), "{lastTick}", fmt.Sprint(ones(int(l.TimeBits))),
		"{max}", fmt.Sprint(ones(int(l.TimeBits)+22)),
		"{ahead}", fmt.Sprint(int64(ahead/l.Unit)), "{patience}", fmt.Sprint(int64(patience/l.Unit)),
		"{reserve}", fmt.Sprint(int64(reserve/l.Unit)),
		"{allowed}", fmt.Sprint(ahead.Seconds()),
		"{mark}", mark, "{least}", least, "{above}", above, "{hint}", hint,
		"{shift}", fmt.Sprint(shift), "{id}", fmt.Sprintf("((state >> 22) << %d) | bigint '%d' | %s", shift, fixed, number),
	), nil
}

// Leases returns the Options.First and Options.Count of leases that keep out the worker ID. If the
// layout has no other worker ID, count is 0.
func (g Generator) Leases() (first, count int) {
	all := 1 << g.Layout.WorkerBits
	if above := all - g.Worker - 1; above > g.Worker {
		return g.Worker + 1, above
	}
	return 0, g.Worker
}

// About returns a sentence on the worker IDs that are left for leases.
func (g Generator) About() string {
	first, count := g.Leases()
	if count == 0 {
		return "The layout has one worker ID: no lease can have another."
	}
	return fmt.Sprintf("Keep worker %d out of the leases' range: lease.Options{First: %d, Count: %d} in every process, "+
		"or snowflaked serve --first %[2]d --count %[3]d.", g.Worker, first, count)
}
