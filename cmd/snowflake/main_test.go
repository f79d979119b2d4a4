//go:build go1.25

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the commands of testdata/*.txt print")

// The files testdata/*.txt are transcripts in the format of Cram. A command comes after " $ ",
// lines of its standard input after " > ", and what it prints, also to standard error, is indented
// by two spaces. Then comes the exit status in brackets, if it is not 0. Other lines explain. It is
// always noon: see atNoon.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			want := strings.ReplaceAll(string(b), "\r\n", "\n")
			got := transcript(t, want)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			} else {
				require.Equal(t, want, got, "write it anew: go test ./cmd/snowflake -update")
			}
		})
	}
}

// transcript runs the commands of a transcript and returns it with what they print.
func transcript(t *testing.T, text string) string {
	var b strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		command, is := strings.CutPrefix(line, "  $ snowflake")
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
		out, errs, status := runInput(&in, words(command)...)
		assert.False(t, status == exitUsage && out != "", "%s is refused, and prints something", command)
		for line := range strings.Lines(out + errs) {
			b.WriteString("  " + line)
		}
		if status != exitOK {
			fmt.Fprintf(&b, "  [%d]\n", status)
		}
	}
	return b.String()
}

// words splits a line at its spaces, but not within quotes.
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

// runCLI runs the tool with no standard input.
func runCLI(args ...string) (stdout, stderr string, status int) {
	return runInput(strings.NewReader(""), args...)
}

func runInput(in io.Reader, args ...string) (stdout, stderr string, status int) {
	var out, errs strings.Builder
	status = run(args, in, &out, &errs, atNoon)
	return out.String(), withoutLog(errs.String()), status
}

var logLine = regexp.MustCompile(`(?m)^time=.*\n`)

// withoutLog returns what the tool wrote to standard error, except the log of its lease. The log
// depends on the time: if the disk is slow, it has a warning.
func withoutLog(errs string) string { return logLine.ReplaceAllString(errs, "") }

// succeed runs the tool, which must not complain, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, status := runCLI(args...)
	require.Empty(t, errs)
	require.Equal(t, exitOK, status)
	return out
}

func lines(s string) []string {
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// brokenWriter refuses what is written.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// If standard output cannot be written, the error is reported, also if the answer is no: the exit
// status alone would not say that the answer was lost. If the reader has gone away, nothing is
// reported.
func TestFailingOutput(t *testing.T) {
	for err, says := range map[error]string{
		errors.New("disk full"): "snowflake: disk full\n",
		&os.PathError{Op: "write", Path: "stdout", Err: syscall.EPIPE}: "",
	} {
		for _, args := range []string{"new", "decode 1", "decode -", "layout", "layout default", "range 2026-01-01 2026-01-02",
			"help", "new -h", "follows bwmarrin default", "workers --store " + t.TempDir(), "new --store " + t.TempDir()} {
			var errs strings.Builder
			assert.Equal(t, exitFailure, run(strings.Fields(args), strings.NewReader("some text"), brokenWriter{err}, &errs, atNoon), args)
			assert.Equal(t, says, withoutLog(errs.String()), args)
		}
	}
	// An endless input must not keep the tool alive when its output is gone.
	assert.Equal(t, exitFailure, run([]string{"decode", "-"}, &repeat{text: "x "}, brokenWriter{io.ErrClosedPipe}, io.Discard, atNoon))
}

func TestFailingInput(t *testing.T) {
	for args, want := range map[string]string{
		"decode - --layout twitter": "1541815603606036480", // not annotated: it may be unfinished
		"identify -":                "",
		"audit":                     "",
		"audit --column 1":          "",
	} {
		in := io.MultiReader(strings.NewReader("1541815603606036480"), iotest.ErrReader(errors.New("bad sector")))
		out, errs, status := runInput(in, strings.Fields(args)...)
		assert.Equal(t, exitFailure, status, args)
		assert.Regexp(t, "^snowflake: .*bad sector\n$", errs, args)
		assert.Equal(t, want, out, args)
	}
}

// Files from Windows may begin with U+FEFF, and their lines end with CR LF. A line that is too long
// is an error.
func TestAuditOfAnyFile(t *testing.T) {
	for in, args := range map[string]string{
		"\ufeff5\r\n\"6\",\r\n7": "audit --json", "\ufeffid,name\r\n5,x\r\n6,y\r\n7,z": "audit --json --column id",
	} {
		out, errs, status := runInput(strings.NewReader(in), strings.Fields(args)...)
		assert.Zero(t, status, errs)
		assert.Contains(t, out, `"ids":3`)
	}
	_, errs, status := runInput(strings.NewReader("5\n"+strings.Repeat("7", 3<<20)), "audit")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, errs, "line 2 is longer than 64 KiB")
}

// A path that does not exist is an error, and is not taken for a store without worker IDs, or a
// table without IDs.
func TestFilesThatDoNotExist(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range []string{
		"workers --store", "whois 5 --store", "watermark --store", "audit", "audit --column id",
		"decode 1nTlm17tp4q3VBQjrxNhpx --key-file",
	} {
		out, errs, status := runCLI(append(strings.Fields(args), none)...)
		assert.Equal(t, exitFailure, status, args)
		assert.Contains(t, errs, none, args)
		assert.Empty(t, out, args)
	}
	_, errs, status := runCLI("workers", "--store", "file:main.go")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, errs, "main.go is not a directory")
}

// As audit does, identify passes over a header, however few IDs are below it.
func TestIdentifyPassesOverHeaders(t *testing.T) {
	const id = "117469438034313216"
	for _, in := range []string{
		"id\n" + id, " id \n----\n " + id + "\n(1 row)\n", "id\nNULL\n" + id, "id\nx!\n" + id + "\n" + id,
		"8pMSQiD1G4",
	} {
		out, errs, status := runInput(strings.NewReader(in), "identify", "-")
		assert.Zero(t, status, "%q: %s", in, errs)
		assert.NotEmpty(t, out, in)
	}
}

// The help of each command says what its exit statuses mean.
func TestExitStatusesAreDocumented(t *testing.T) {
	for _, c := range rootCommand(&streams{}).Commands() {
		require.Contains(t, statuses, c.Name())
		assert.Regexp(t, `\nThe exit status is\n  0  if .*\n  1  if .*\n  2  if .*$`, c.Long, c.Name())
	}
}

func TestIdentifySaysThatItReadASample(t *testing.T) {
	text := strings.Repeat("622075010088960003\n", mostWords)
	for in, says := range map[string]string{text: "", text + "5\n": "snowflake: read a sample only: the first 10000 IDs\n"} {
		_, errs, status := runInput(strings.NewReader(in), "identify", "-")
		assert.Zero(t, status)
		assert.Equal(t, says, errs)
	}
}

func TestAuditReadsGzip(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := io.WriteString(w, "id\n5\n6\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	out, errs, status := runInput(bytes.NewReader(z.Bytes()), "audit", "--json")
	assert.Zero(t, status, errs)
	assert.Contains(t, out, `"ids":2`)
	out, _, _ = runInput(&z, "decode", "-")
	assert.Equal(t, "id\n5\n6\n", out)
}

// On a terminal, a long input shows how far it is, and the last line is wiped out at the end.
func TestProgress(t *testing.T) {
	var errs strings.Builder
	clock := noon
	p := &progress{in: strings.NewReader(strings.Repeat("x", 4_000_000)), err: &errs, total: 4_000_000, now: func() time.Time {
		clock = clock.Add(300 * time.Millisecond)
		return clock
	}}
	for range 6 {
		_, err := p.Read(make([]byte, 500_000))
		require.NoError(t, err)
	}
	p.end()
	assert.Equal(t, "\r\x1b[K2.5 MB of 4.0 MB, 2.1 MB/s, 1s left"+"\r\x1b[K", errs.String())

	errs.Reset()
	p = &progress{in: strings.NewReader(strings.Repeat("x", 4_000_000)), err: &errs, now: atNoon}
	_, err := io.ReadAll(p)
	require.NoError(t, err)
	p.end()
	assert.Empty(t, errs.String(), "it took less than a second")
}

func FuzzArguments(f *testing.F) {
	f.Add("decode", "123", "--layout", "twitter")
	f.Add("layout", "41/3/7/12@2026-01-01,1h", "--json", "--json")
	f.Add("follows", "41/3/7/12", "default@5,7ms", "--last=99")
	f.Add("sql", "postgres", "--prefix", "x_")
	f.Add("identify", "3jzfcijpj2z2a", "-n", "2")
	f.Add("layout", "63/0/0@-9223372036854775808", "--", "--")
	f.Add("range", "2026-01-01", "2026-01-02T03:04:05Z", "--json")
	f.Add("audit", "--column=5", "--separator", ";")
	f.Fuzz(func(t *testing.T, command, a, b, c string) {
		switch command {
		case "new":
			t.Skip("it may have to wait, and -n may be large")
		case "worker", "whois", "watermark":
			t.Skip("they open files")
		}
		out, errs, status := runCLI(command, a, b, c)
		switch status {
		case exitOK, exitFailure:
			require.NotEmpty(t, out+errs)
		case exitUsage:
			require.Empty(t, out)
			require.Regexp(t, `\Asnowflake: .`, errs)
		}
	})
}
