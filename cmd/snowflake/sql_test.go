package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

func TestSQL(t *testing.T) {
	for _, e := range sqltext.Engines() {
		out := succeed(t, "sql", "--layout", "twitter", "--prefix", "tw_", string(e))
		for _, name := range []string{"valid", "time", "sequence", "worker", "datacenter", "first"} {
			assert.Contains(t, out, "-- tw_"+name+"(", e)
		}
		assert.NotContains(t, out, "clockseq(")
		assert.Equal(t, e != sqltext.SQLite, strings.Contains(out, "\nCREATE FUNCTION tw_time"))
		assert.Contains(t, succeed(t, "sql", "--json", string(e)), `"expressions":{"first":"`)
	}
}

func TestSQLRefusesInput(t *testing.T) {
	for args, names := range map[string]string{
		"sql":                            "received 0",
		"sql postgres mysql":             "received 2",
		"sql oracle":                     `"oracle"`,
		"sql postgres --prefix a;b":      `"a;b"`,
		"sql postgres --layout x":        `"x"`,
		"sql postgres --unit 7ms":        "unit 7ms",
		"sql postgres --layout 41/11/12": "64 bits",
	} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, names)
	}
}
