package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// runCLI runs the tool with no standard input.
func runCLI(args ...string) (stdout, stderr string, status int) {
	return runInput(strings.NewReader(""), args...)
}

func runInput(in io.Reader, args ...string) (stdout, stderr string, status int) {
	var out, errs strings.Builder
	status = run(args, in, &out, &errs)
	return out.String(), withoutLog(errs.String()), status
}

var logLine = regexp.MustCompile(`(?m)^time=.*\n`)

// withoutLog returns what the tool wrote to standard error, except the log of its lease. The log depends on the time: if
// the disk is slow, it has a warning.
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

func TestNewPrintsIncreasingIDs(t *testing.T) {
	var last snowflake.ID
	out := lines(succeed(t, "new", "-n", "10000", "--worker", "7"))
	assert.Len(t, out, 10000)
	for _, line := range out {
		id, err := snowflake.ParseID(line)
		require.NoError(t, err)
		require.Greater(t, id, last)
		require.Equal(t, 7, snowflake.Decode(id).Worker)
		last = id
	}
}

func TestNewPrintsOneIDWithoutFlags(t *testing.T) {
	id, err := snowflake.ParseID(strings.TrimSuffix(succeed(t, "new"), "\n"))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), snowflake.Decode(id).Time, time.Minute)
}

func TestNewWithOneIDPerTick(t *testing.T) {
	assert.Len(t, lines(succeed(t, "new", "-n", "3", "--layout", "41/10/0")), 3)
}

func TestNewDecodes(t *testing.T) {
	l := layouts.Twitter()
	out := lines(succeed(t, "new", "-n", "3", "--decode", "--layout", "twitter", "--worker", "3", "--datacenter", "4"))
	assert.Len(t, out, 3)
	for _, line := range out {
		text, fields, _ := strings.Cut(line, " ")
		id, err := snowflake.ParseID(text)
		require.NoError(t, err)
		assert.Equal(t, l.Decode(id).String(), fields)
		assert.Contains(t, fields, "datacenter=4 worker=3 ")
	}
}

func TestDecodeRealIDs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "layouts", "testdata", "ids.json"))
	require.NoError(t, err)
	var vectors []struct {
		Layout, ID                   string
		UnixMS                       int64 `json:"unix_ms"`
		Datacenter, Worker, Sequence int
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.NotEmpty(t, vectors)
	for _, v := range vectors {
		t.Run(v.Layout+"/"+v.ID, func(t *testing.T) {
			datacenter := fmt.Sprintf(" datacenter=%d", v.Datacenter)
			if v.Datacenter == 0 {
				datacenter = ""
			}
			want := fmt.Sprintf("%s time=%s%s worker=%d sequence=%d\n", v.ID,
				time.UnixMilli(v.UnixMS).UTC().Format("2006-01-02T15:04:05.000Z"), datacenter, v.Worker, v.Sequence)
			assert.Equal(t, want, succeed(t, "decode", "--layout", v.Layout, v.ID))
		})
	}
}

const tweetFields = "1541815603606036480 time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0\n"

func TestFlagsBeforeAndAfterArguments(t *testing.T) {
	const id = "1541815603606036480"
	for _, args := range [][]string{
		{"decode", "--layout", "twitter", id, id},
		{"decode", id, "--layout", "twitter", id},
		{"decode", id, id, "--layout=twitter"},
		{"decode", "--worker-last=false", id, "--layout=twitter", "--", id},
		{"decode", "--layout", "twitter", "--", id, id},
		{"decode", "--layout", "41/0/5/5/12", "--epoch", "1288834974657", id, id},
		{"decode", "--layout", "41/0/5/5/12", "--epoch", "2010-11-04T01:42:54.657Z", id, id},
		{"decode", "--layout", "discord", "--epoch", "2010-11-04T02:42:54.657+01:00", id, id},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			assert.Equal(t, tweetFields+tweetFields, succeed(t, args...))
		})
	}
}

func TestChangesToALayout(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--layout", "8/4/4"}, "time=2026-01-01T00:00:00.001Z worker=2 sequence=3"},
		{[]string{"--layout", "8/4/4", "--worker-last"}, "time=2026-01-01T00:00:00.001Z worker=3 sequence=2"},
		{[]string{"--layout", "8/4/4", "--unit", "2h"}, "time=2026-01-01T02:00:00.000Z worker=2 sequence=3"},
		{[]string{"--layout", "8/4/4", "--epoch", "2000-02-03"}, "time=2000-02-03T00:00:00.001Z worker=2 sequence=3"},
		{[]string{"--layout", "8/4/4", "--epoch", "-1"}, "time=1970-01-01T00:00:00.000Z worker=2 sequence=3"},
		{[]string{"--layout", "8/2/4/2"}, "time=2026-01-01T00:00:00.001Z worker=8 sequence=3"},
		{[]string{"--layout", "7/2/2/3/2"}, "time=2026-01-01T00:00:00.000Z clockseq=2 datacenter=1 worker=0 sequence=3"},
		{[]string{"--layout", "sonyflake", "--worker-last=false"}, "time=2014-09-01T00:00:00.000Z worker=1 sequence=35"},
		{[]string{"--layout", "sonyflake", "--unit", "1s"}, "time=2014-09-01T00:00:00.000Z worker=291 sequence=0"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out := succeed(t, append([]string{"decode", "291"}, test.args...)...) // 0x123
			assert.Equal(t, "291 "+test.want+"\n", out)
		})
	}
}

func TestRange(t *testing.T) {
	const day = 24 * 60 * 60 * 1000 << 22
	tests := []struct {
		args   []string
		lo, hi int64
	}{
		{[]string{"2026-01-01", "2026-01-02"}, 0, day},
		{[]string{"2026-01-02", "2026-01-02"}, day, day},
		{[]string{"2026-01-01T00:00:00", "2026-01-02 00:00:00"}, 0, day},
		{[]string{"2026-01-01T01:00:00+01:00", "2026-01-02T00:00:00Z"}, 0, day},
		{[]string{"2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.002Z"}, 1 << 22, 2 << 22},
		{[]string{"2010-11-04T01:42:54.657Z", "2010-11-05T01:42:54.657Z", "--layout", "twitter"}, 0, day},
		{[]string{"--layout", "16/4/4", "--unit", "1h", "2026-01-01", "2026-01-02"}, 0, 24 << 8},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out := succeed(t, append([]string{"range"}, test.args...)...)
			assert.Equal(t, fmt.Sprintf("%d\n%d\n", test.lo, test.hi), out)
		})
	}
}

func TestRefusedInput(t *testing.T) {
	tests := []struct {
		args  []string
		names string // what the message must name
	}{
		{[]string{"frobnicate"}, `"frobnicate"`},
		{[]string{"--layout", "twitter"}, "--layout"},
		{[]string{"decod"}, "did you mean decode"},
		{[]string{"help", "nope"}, `"nope"`},
		{[]string{"completion", "ksh"}, `"ksh"`},
		{[]string{"version", "1"}, `"1"`},

		{[]string{"new", "3"}, `"3"`},
		{[]string{"new", "-n", "0"}, "-n 0"},
		{[]string{"new", "-n", "-5"}, "-n -5"},
		{[]string{"new", "-n", "many"}, `--count "many" is not a whole number`},
		{[]string{"new", "--worker", "x"}, `--worker "x" is not a whole number`},
		{[]string{"new", "-n", "99999999999999999999"}, `--count "99999999999999999999" is out of range`},
		{[]string{"new", "--decode=x"}, `--decode "x" is neither true nor false`},
		{[]string{"new", "-decode"}, "-decode; did you mean --decode"},
		{[]string{"new", "-worker=3"}, "-worker; did you mean --worker"},
		{[]string{"new", "-n"}, "-n"},
		{[]string{"new", "-frob"}, "-frob"},
		{[]string{"new", "--worker", "1024"}, "worker 1024"},
		{[]string{"new", "--worker", "-1"}, "worker -1"},
		{[]string{"new", "--datacenter", "1"}, "datacenter 1"},
		{[]string{"new", "--layout", "baidu"}, "2024-11-20"},
		{[]string{"new", "--epoch", "9999-01-01"}, "9999-01-01"},

		{[]string{"decode"}, "IDs"},
		{[]string{"decode", "-5"}, "-5"},
		{[]string{"decode", "--layout", "twitter", "-5"}, "-5"},
		{[]string{"decode", "123", "12x"}, `"12x"`},
		{[]string{"decode", "123", "1\n2"}, `"1\n2"`},
		{[]string{"decode", "-x\ny\r"}, `x\ny\r`},
		{[]string{"decode", "0123"}, `"0123"`},
		{[]string{"decode", "03902MW7R0000"}, "it may be base 32: snowflake identify 03902MW7R0000"},
		{[]string{"decode", "08jSVlcGDw0"}, "it may be base 62: snowflake identify"},
		{[]string{"decode", ""}, `""`},
		{[]string{"decode", "9223372036854775808"}, "9223372036854775808"},
		{[]string{"decode", "123", "9007199254740992", "--layout", "jssafe"}, "9007199254740992"},
		{[]string{"decode", "-", "123"}, "- only by itself"},
		{[]string{"decode", "--", "--layout"}, `"--layout"`},

		{[]string{"layout", "twiter"}, `"twiter"`},
		{[]string{"layout", "twitter", "discord"}, "received 2"},
		{[]string{"layout", "--unit", "1s"}, "name or a spec"},
		{[]string{"layout", "41"}, `"41"`},
		{[]string{"layout", "41/10"}, "2 fields"},
		{[]string{"layout", "1/1/1/1/1/1"}, "6 fields"},
		{[]string{"layout", "41//12"}, `""`},
		{[]string{"layout", "41/-1/12"}, `"-1"`},
		{[]string{"layout", "41/256/12"}, `"256"`},
		{[]string{"layout", "41/11/12"}, "64 bits"},
		{[]string{"layout", "0/10/12"}, "time bits"},
		{[]string{"layout", "twitter", "--unit", "0s"}, "unit 0s"},
		{[]string{"layout", "twitter", "--unit", "-1s"}, "unit -1s"},
		{[]string{"layout", "twitter", "--unit", "fast"}, `"fast"`},
		{[]string{"layout", "twitter", "--epoch", "2026-13-01"}, `"2026-13-01"`},
		{[]string{"layout", "twitter", "--epoch", "2026-01-01T00:00:00.0001Z"}, "2026-01-01T00:00:00.0001Z"},
		{[]string{"layout", "twitter", "--worker-last=maybe"}, `"maybe"`},

		{[]string{"range"}, "received 0"},
		{[]string{"range", "2026-01-01"}, "received 1"},
		{[]string{"range", "2026-01-01", "2026-01-02", "2026-01-03"}, "received 3"},
		{[]string{"range", "yesterday", "2026-01-02"}, `"yesterday"`},
		{[]string{"range", "2026-01-02", "tomorrow"}, `"tomorrow"`},
		{[]string{"range", "2026-01-02", "2026-01-01"}, "2026-01-02"},
		{[]string{"range", "2025-01-01", "2026-01-02"}, "2025-01-01"},
		{[]string{"range", "2026-01-01", "2126-01-02"}, "2126-01-02"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out, errs, status := runCLI(test.args...)
			assert.Equal(t, exitUsage, status)
			assert.Empty(t, out)
			requireOneLine(t, errs)
			assert.Contains(t, errs, test.names)
			assert.NotContains(t, errs, "strconv")
		})
	}
}

var message = regexp.MustCompile(`\Asnowflake: [^\n\r]+\n\z`)

// requireOneLine fails unless stderr is one message.
func requireOneLine(t *testing.T, stderr string) {
	t.Helper()
	require.Regexp(t, message, stderr)
	require.Equal(t, 1, strings.Count(stderr, "snowflake: "), stderr)
}

func TestHelp(t *testing.T) {
	all := succeed(t, "help")
	assert.Equal(t, all, succeed(t))
	assert.Equal(t, all, succeed(t, "-h"))
	for _, c := range rootCommand(&streams{}).Commands() {
		out := succeed(t, "help", c.Name())
		assert.Contains(t, all, " "+c.Name()+" ")
		for _, line := range lines(out) {
			assert.LessOrEqual(t, len(line), 90, line)
		}
		if c.Runnable() {
			assert.Contains(t, out, "snowflake "+c.Use)
			assert.Equal(t, out, succeed(t, c.Name(), "-h"))
			assert.Equal(t, out, succeed(t, c.Name(), "1", "--help"))
			assert.Contains(t, out, "--json")
		}
	}
	assert.Contains(t, succeed(t, "help", "new"), "HAZARD")
}

func TestVersion(t *testing.T) {
	assert.Regexp(t, `^snowflake version \(devel\), go1\.\d+\S* \w+/\w+\n$`, succeed(t, "--version"))
	assert.Equal(t, succeed(t, "--version"), succeed(t, "version"))
}

// The shells' scripts, which are cobra's, ask the program for what may stand next.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"id":                  "identify",
		"decode --lay":        "--layout",
		"sql post":            "postgres",
		"layout sonyfl":       "sonyflake sonyflake-v2",
		"follows sonyfl":      "sonyflake sonyflake-v2",
		"help lay":            "layout",
		"worker --d":          "--dir",
		"follows --last sony": "",
		"new a":               "",
		"decode a":            "",
		"completion fi":       "fish",
	} {
		args := append([]string{"__complete"}, strings.Fields(line)...)
		out, _, _ := runCLI(args...)
		var words []string
		for _, line := range lines(out) {
			if word, _, _ := strings.Cut(line, "\t"); word != "" && word[0] != ':' {
				words = append(words, word)
			}
		}
		assert.Equal(t, strings.Fields(want), append([]string{}, words...), line)
	}
	out, _, _ := runCLI("__complete", "new", "--layout", "tw")
	assert.Contains(t, lines(out), "twitter", "the shell leaves out the others")
	directories, files, nothing := ":16\n", ":0\n", ":4\n"
	for line, want := range map[string]string{"worker --dir x": directories, "audit --tmp x": directories, "audit x": files, "range x": nothing, "new --epoch x": nothing} {
		out, _, _ := runCLI(append([]string{"__complete"}, strings.Fields(line)...)...)
		assert.Equal(t, want, out, line)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		assert.Contains(t, succeed(t, "completion", shell), "__complete", shell)
	}
}

// brokenWriter refuses what is written.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

var commandLines = [][]string{{"new"}, {"decode", "1"}, {"decode", "-"}, {"layout"}, {"layout", "default"}, {"range", "2026-01-01", "2026-01-02"}, {"help"}, {"new", "-h"}}

func TestFailingOutputIsReported(t *testing.T) {
	for _, args := range commandLines {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var errs strings.Builder
			status := run(args, strings.NewReader("some text"), brokenWriter{errors.New("disk full")}, &errs)
			assert.Equal(t, exitFailure, status)
			assert.Equal(t, "snowflake: disk full\n", errs.String())
		})
	}
}

func TestClosedPipePrintsNoError(t *testing.T) {
	for _, args := range commandLines {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var errs strings.Builder
			gone := &os.PathError{Op: "write", Path: "stdout", Err: syscall.EPIPE}
			status := run(args, strings.NewReader("some text"), brokenWriter{gone}, &errs)
			assert.Equal(t, exitFailure, status)
			assert.Empty(t, errs.String())
		})
	}
}

func TestFailingInputIsReported(t *testing.T) {
	in := io.MultiReader(strings.NewReader("before 1541815603606036480"), iotest.ErrReader(errors.New("bad sector")))
	out, errs, status := runInput(in, "decode", "-", "--layout", "twitter")
	assert.Equal(t, exitFailure, status)
	assert.Equal(t, "snowflake: bad sector\n", errs)
	assert.Equal(t, "before 1541815603606036480", out, "all that was read is written; the number may have gone on")
}

// An endless input must not keep the tool alive when its output is gone.
func TestAnnotateStopsWhenItsOutputFails(t *testing.T) {
	var errs strings.Builder
	assert.Equal(t, exitFailure, run([]string{"decode", "-"}, &repeat{text: "x"}, brokenWriter{io.ErrClosedPipe}, &errs))
}

func TestBinary(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "snowflake.exe")
	text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)

	t.Run("follows its input line by line", func(t *testing.T) {
		cmd := exec.Command(bin, "decode", "-", "--layout", "twitter")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		r := bufio.NewReader(out)
		for i := range 3 {
			fmt.Fprintf(in, "line %d: 1541815603606036480\n", i)
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			fields := strings.TrimSuffix(strings.TrimPrefix(tweetFields, "1541815603606036480 "), "\n")
			assert.Equal(t, "line "+strconv.Itoa(i)+": 1541815603606036480 ("+fields+")\n", line)
		}
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})

	t.Run("exits 2 on bad input", func(t *testing.T) {
		var exit *exec.ExitError
		_, err := exec.Command(bin, "decode", "-5").Output()
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, exitUsage, exit.ExitCode())
		requireOneLine(t, string(exit.Stderr))
	})
}

func FuzzArguments(f *testing.F) {
	f.Add("decode", "123", "--layout", "twitter")
	f.Add("layout", "41/3/7/12", "--unit", "1h")
	f.Add("follows", "41/3/7/12", "default@5,7ms", "--last=99")
	f.Add("sql", "postgres", "--prefix", "x_")
	f.Add("identify", "3jzfcijpj2z2a", "-n", "2")
	f.Add("layout", "63/0/0", "--epoch", "-9223372036854775808")
	f.Add("range", "2026-01-01", "2026-01-02T03:04:05Z", "--worker-last")
	f.Fuzz(func(t *testing.T, command, a, b, c string) {
		switch command {
		case "new":
			t.Skip("it may have to wait, and -n may be large")
		case "audit", "worker", "whois":
			t.Skip("they open files")
		}
		out, errs, status := runCLI(command, a, b, c)
		switch {
		case status == exitOK && (command != "decode" || errs == ""):
			require.Empty(t, errs)
			return
		case status == exitOK: // with a hint at another layout
			require.NotEmpty(t, out)
			require.Regexp(t, message, errs)
			return
		case command == "follows" && status == exitFailure:
			require.Empty(t, errs)
			require.NotEmpty(t, out)
			return
		}
		require.Equal(t, exitUsage, status)
		require.Empty(t, out)
		require.Regexp(t, message, errs)
	})
}
