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
	id := strings.TrimSpace(succeed(t, "new", "--dir", dir))
	out := succeed(t, "whois", "--dir", dir, id)
	assert.Regexp(t, fmt.Sprintf(`^%s owner=\S+ host=\S+ pid=%d worker=\d+ clockseq=0 from=20\S+ to=20\S+\n$`, id, os.Getpid()), out)

	out, errs, status := runCLI("whois", "--dir", dir, "7", id)
	assert.Equal(t, exitFailure, status)
	assert.Empty(t, errs, "the answer says it")
	assert.Regexp(t, `^7 .*worker 0 was never leased\n`+id+" owner=", out)
}

func TestWhoisRefusesInput(t *testing.T) {
	dir := t.TempDir()
	for args, names := range map[string]string{
		"whois 5":                   "--dir",
		"whois --dir " + dir:        "takes IDs",
		"whois --dir " + dir + " x": `"x"`,
		"whois 5 --dir " + filepath.Join(dir, "none"): "none",
	} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, names)
	}
}
