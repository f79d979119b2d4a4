//go:build go1.25

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/transcript"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

// It is always noon in the transcripts: see atNoon.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "snowflake", func(_ *testing.T, in io.Reader, args ...string) (string, string, int) { return runInput(in, args...) })
}

// runCLI runs the tool with no standard input.
func runCLI(args ...string) (stdout, stderr string, status int) {
	return runInput(strings.NewReader(""), args...)
}

func runInput(in io.Reader, args ...string) (stdout, stderr string, status int) {
	var out, errs strings.Builder
	status = run(args, in, &out, &errs, atNoon)
	return out.String(), errs.String(), status
}

// succeed runs the tool, which must not complain, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, status := runCLI(args...)
	require.Empty(t, errs)
	require.Equal(t, command.OK, status)
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
			"help", "new -h", "follows bwmarrin default"} {
			var errs strings.Builder
			assert.Equal(t, command.Failure, run(strings.Fields(args), strings.NewReader("some text"), brokenWriter{err}, &errs, atNoon), args)
			assert.Equal(t, says, errs.String(), args)
		}
	}
	// An endless input must not keep the tool alive after its output has failed.
	assert.Equal(t, command.Failure, run([]string{"decode", "-"}, &repeat{text: "x "}, brokenWriter{io.ErrClosedPipe}, io.Discard, atNoon))
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
		assert.Equal(t, command.Failure, status, args)
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
	assert.Equal(t, command.Failure, status)
	assert.Contains(t, errs, "line 2 is longer than 64 KiB")
}

// A path that does not exist is an error, and is not taken for a table without IDs.
func TestFilesThatDoNotExist(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range []string{
		"audit", "audit --column id", "decode 1nTlm17tp4q3VBQjrxNhpx --key-file",
	} {
		out, errs, status := runCLI(append(strings.Fields(args), none)...)
		assert.Equal(t, command.Failure, status, args)
		assert.Contains(t, errs, none, args)
		assert.Empty(t, out, args)
	}
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
	for _, c := range rootCommand(&command.Streams{Program: "snowflake"}).Commands() {
		if c.GroupID != "own" || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		assert.Regexp(t, `\nThe exit status is\n  0  if .*\n  1  if .*\n  2  if .*$`, c.Long, c.Name())
	}
}

func TestHelpNamesTheDatabasesAndTheLimitOfAnAudit(t *testing.T) {
	for _, e := range sqltext.Engines() {
		out, _, _ := runInput(nil, "help", "sql")
		assert.Contains(t, out, "\n  "+string(e)+"\n")
	}
	out, _, _ := runInput(nil, "help", "audit")
	assert.Contains(t, out, fmt.Sprintf("accepts at most %d million", audit.Most/1_000_000))
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

func FuzzArguments(f *testing.F) {
	f.Add("decode", "123", "--layout", "twitter")
	f.Add("layout", "41/3/7/12@2026-01-01,1h", "--json", "--json")
	f.Add("follows", "41/3/7/12", "default@5,7ms", "--last=99")
	f.Add("sql", "postgres", "--prefix", "x_")
	f.Add("identify", "3jzfcijpj2z2a", "-n", "2")
	f.Add("layout", "63/0/0@-9223372036854775808", "--", "--")
	f.Add("range", "2026-01-01", "2026-01-02T03:04:05Z", "--json")
	f.Add("audit", "--column=5", "--separator", ";")
	f.Fuzz(func(t *testing.T, name, a, b, c string) {
		switch name {
		case "new":
			t.Skip("it may have to wait, and -n may be large")
		}
		out, errs, status := runCLI(name, a, b, c)
		switch status {
		case command.OK, command.Failure:
			require.NotEmpty(t, out+errs)
		case command.Usage:
			require.Empty(t, out)
			require.Regexp(t, `\Asnowflake: .`, errs)
		}
	})
}

// What needs the store of the leases is in snowflaked, so that this program compiles in seconds.
func TestCommandsDoNotImportTheLeases(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "snowflake/internal/audit\n")
	assert.NotRegexp(t, "snowflake/(lease|follow)\n", string(out))
}
