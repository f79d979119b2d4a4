package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/layouts"
)

// Output has colours if it is a terminal, and NO_COLOR is not set.
func TestColors(t *testing.T) {
	script, err := exec.LookPath("script") // gives a program a terminal
	if err != nil {
		t.Skip("script is not installed")
	}
	bin := filepath.Join(t.TempDir(), "snowflake")
	text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)
	id := newID(t, layouts.Sonyflake()).String()
	run := func(env string, name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "NO_COLOR=", "TERM=xterm", env)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	onTerminal := []string{"-qec", bin + " identify " + id, "/dev/null"}
	assert.Contains(t, run("A=1", script, onTerminal...), "\x1b[1m")
	assert.NotContains(t, run("NO_COLOR=1", script, onTerminal...), "\x1b[")
	assert.NotContains(t, run("TERM=dumb", script, onTerminal...), "\x1b[")
	assert.NotContains(t, run("A=1", bin, "identify", id), "\x1b[")
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	p := &progress{w: &b, next: time.Now().Add(time.Hour)}
	p.say("%d", 1)
	p.end()
	assert.Empty(t, b.String(), "it was done soon")
	p.next = time.Time{}
	p.say("%d", 2)
	p.say("%d", 3)
	p.end()
	assert.Equal(t, "\r\x1b[K2\r\x1b[K", b.String(), "not more often than one can read")
	assert.Nil(t, newProgress(&b).w, "it is no terminal")
}
