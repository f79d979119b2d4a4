package page

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the derived file")

func TestDerivedFileIsInStep(t *testing.T) {
	if _, err := os.Stat("../../js"); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the repository's folder js is not in this module: run this test in a clone")
	}
	module, err := os.ReadFile("../../js/snowflake.js")
	require.NoError(t, err)
	want := classic(string(unixLines(module)))
	if *update {
		require.NoError(t, os.WriteFile("snowflake.js", []byte(want), 0o644))
	}
	got, err := os.ReadFile("snowflake.js")
	require.NoError(t, err)
	require.Equal(t, want, string(unixLines(got)), "write it anew: go generate ./server/page")
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
