package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhois(t *testing.T) {
	dir := t.TempDir()
	id := strings.TrimSpace(succeed(t, "new", "-lease", dir))
	out := succeed(t, "whois", "-dir", dir, id)
	assert.Regexp(t, fmt.Sprintf(`^%s owner=\S+ host=\S+ pid=%d worker=0 clockseq=0 from=20\S+ to=20\S+\n$`, id, os.Getpid()), out)

	out, errs, status := runCLI("whois", "-dir", dir, "7", id)
	assert.Equal(t, exitFailure, status)
	assert.Empty(t, errs, "the answer says it")
	assert.Regexp(t, `^7 .*nobody had worker 0 and clock sequence 0 at 2026-01-01T00:00:00.000Z\n`+id+" owner=", out)
}

func TestWhoisRefusesInput(t *testing.T) {
	dir := t.TempDir()
	for args, names := range map[string]string{
		"whois 5":                  "-dir",
		"whois -dir " + dir:        "IDs",
		"whois -dir " + dir + " x": `"x"`,
		"whois 5 -dir " + filepath.Join(dir, "none"): "none",
	} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, names)
	}
}
