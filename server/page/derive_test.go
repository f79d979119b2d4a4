package page

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

var update = flag.Bool("update", false, "write the derived files")

func TestDerivedFilesAreInStep(t *testing.T) {
	if _, err := os.Stat("../../js"); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the repository's folder js is not in this module: run this test in a clone")
	}
	module, err := os.ReadFile("../../js/snowflake.js")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"snowflake.js": classic(string(unixLines(module))),
		"layouts.js":   table(),
	} {
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		}
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(unixLines(got)), "write it anew: go generate ./server/page")
	}
}

func unixLines(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "\r\n", "\n")) }

var exported = regexp.MustCompile(`(?m)^export (const|function|class) (\w+)`)

// classic makes a classic script of a module: browsers load no modules from files.
func classic(module string) string {
	var names []string
	for _, m := range exported.FindAllStringSubmatch(module, -1) {
		names = append(names, m[2])
	}
	body := exported.ReplaceAllString(module, "$1 $2")
	return "// Code generated from js/snowflake.js by go generate ./server/page; DO NOT EDIT.\n\"use strict\";\n\nconst snowflake = (() => {\n" +
		body + "\nreturn Object.freeze({ " + strings.Join(names, ", ") + " });\n})();\n"
}

// table writes the library's known layouts as a script.
func table() string {
	var b strings.Builder
	b.WriteString("// Code generated from internal/layouts by go generate ./server/page; DO NOT EDIT.\n\"use strict\";\n\nconst knownLayouts = Object.freeze([\n")
	for _, k := range layouts.All() {
		l := k.Layout
		fmt.Fprintf(&b, "  {\n    name: %q, also: [", k.Name)
		for i, also := range k.Also {
			fmt.Fprintf(&b, "%s%q", strings.Repeat(", ", min(i, 1)), also)
		}
		since := "null"
		if !k.Since.IsZero() {
			since = fmt.Sprintf("%dn", k.Since.UnixNano())
		}
		fmt.Fprintf(&b, "], about: %q, source: %q,\n", k.About, k.Source)
		fmt.Fprintf(&b, "    weight: %v, random: %v, since: %s,\n", k.Weight(), k.Random, since)
		fmt.Fprintf(&b, "    layout: { epoch: %dn, unit: %dn, timeBits: %d, clockSeqBits: %d, datacenterBits: %d, workerBits: %d, sequenceBits: %d, workerLast: %v },\n  },\n",
			l.Epoch, l.Unit, l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast)
	}
	b.WriteString("]);\n")
	return b.String()
}
