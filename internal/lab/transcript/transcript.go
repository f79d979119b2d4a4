// Package transcript tests programs by their output.
package transcript

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/command"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what the commands print")

// Run runs the transcripts testdata/*.txt of a program.
func Run(t *testing.T, program string, run func(t *testing.T, in io.Reader, args ...string) (stdout, stderr string, status int)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			RunFile(t, file, program, func(in io.Reader, args ...string) (string, string, int) { return run(t, in, args...) })
		})
	}
}

// RunFile runs a transcript of a program, in the format of Cram. "  $ " begins a command, and
// "  > " a line of its standard input. Its output, including standard error, is indented by two
// spaces and followed by the exit status in brackets, if it is not 0. Other lines are comments.
func RunFile(t *testing.T, file, program string, run func(in io.Reader, args ...string) (stdout, stderr string, status int)) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	want := strings.ReplaceAll(string(b), "\r\n", "\n")
	got := play(want, "  $ "+program, run, func(command string) { assert.Fail(t, "refused, and prints something", command) })
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	} else {
		require.Equal(t, want, got, "write it anew with -update")
	}
}

// play runs the commands of a transcript, and returns it with their output. It calls bad for
// commands that exit with a usage error but print to standard output.
func play(text, prompt string, run func(in io.Reader, args ...string) (stdout, stderr string, status int), bad func(string)) string {
	var b strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		args, is := strings.CutPrefix(line, prompt)
		if !is {
			if !strings.HasPrefix(line, "  ") {
				b.WriteString(line)
			}
			continue
		}
		b.WriteString(line)
		var in bytes.Buffer
		for _, line := range lines[i+1:] {
			text, is := strings.CutPrefix(line, "  > ")
			if !is {
				break
			}
			b.WriteString(line)
			in.WriteString(text)
		}
		out, errs, status := run(&in, words(args)...)
		if status == command.Usage && out != "" {
			bad(line)
		}
		for _, line := range strings.SplitAfter(out+errs, "\n") {
			if line != "" {
				b.WriteString("  " + line)
			}
		}
		if status != command.OK {
			fmt.Fprintf(&b, "  [%d]\n", status)
		}
	}
	return b.String()
}

// words splits a line at spaces outside quotes.
func words(line string) []string {
	quoted := false
	words := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\n')
	})
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}
