package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/audit"
)

// audited runs audit with --json on an input.
func audited(t *testing.T, in string, args ...string) (audit.Report, int) {
	t.Helper()
	out, errs, status := runInput(strings.NewReader(in), append([]string{"audit", "--json"}, args...)...)
	require.Empty(t, errs)
	var r audit.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	return r, status
}

func TestAudit(t *testing.T) {
	id := newID(t, snowflake.DefaultLayout()) - 100<<22
	in := fmt.Sprintf("\xef\xbb\xbf%d\r\n%d\n\n\"%d\",\n%d\n", id, id+1<<22, id, id+2<<22)
	out, errs, status := runInput(strings.NewReader(in), "audit")
	assert.Equal(t, exitFailure, status)
	assert.Empty(t, errs)
	parts := snowflake.Decode(id)
	at := func(ms int) string { return moment(parts.Time.Add(time.Duration(ms) * time.Millisecond)) }
	assert.Equal(t, fmt.Sprintf(`4 IDs of time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z
from %[2]s to %[3]s
WRONG: 1 ID comes more than once

more than once:
  %[1]d of %[2]s, 2 times: line 1, line 4

less than the ID before of the worker:
  line 4: %[1]d of %[4]s, 1ms older than %[5]d

worker  IDs  first                     last                      per second  spent ticks  steps back  more than once  longest gap  note
3       3    %[2]s  %[3]s  3           0.0%%         1 (1ms)     1                            SHARED?
`, id, at(0), at(2), parts.Time.Format(time.RFC3339Nano), id+1<<22), out)

	out, _, status = runInput(strings.NewReader(id.String()), "audit")
	assert.Zero(t, status)
	assert.Contains(t, out, "\nnothing is wrong\n")
}

// One ID that is ahead of its time is one step back, whatever follows. A step back of more than a second is
// wrong, because two generators may have issued the IDs.
func TestAuditOfAStepBack(t *testing.T) {
	first := newID(t, snowflake.DefaultLayout()) - 100_000<<22
	var in strings.Builder
	for i := range 2000 {
		id := first + snowflake.ID(i)<<22
		if i == 777 {
			id += 5000 << 22
		}
		fmt.Fprintln(&in, id)
	}
	out, _, status := runInput(strings.NewReader(in.String()), "audit")
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, out, "\nWRONG: 1 ID is more than a second older than the ID before of its worker\n")
	assert.Regexp(t, `(?m)^more than a second older than the ID before of the worker:\n  line 779: \d+ of \S+, 4.999s older than \d+$`, out)
	assert.Contains(t, out, "1 (4.999s)")
	assert.Contains(t, out, "note: an ID that is older than the ID before is wrong only if the list is in the order")
	r, _ := audited(t, in.String())
	assert.EqualValues(t, 1, r.StepsBack.Count)
	assert.EqualValues(t, 1, r.FarBack.Count)
	assert.Equal(t, "line 779", r.FarBack.First[0].At)
}

// Input that cannot be read, or is of another layout, gets a hint.
func TestAuditHints(t *testing.T) {
	tweets := "1541815603606036480\n1541815603606036481\n"
	for in, want := range map[string]string{
		"name,id\nx,117469438034341930\ny,117469438034341931\n": "--column 2 reads",
		"117469438034341930;x\n":                                `--column 1 --separator ";" reads`,
		"x\t\"117469438034341930\"\n":                           "--column 2 --separator tab reads",
		tweets:                                                  "\nnote: the time of 1541815603606036480 lies in the future: it is probably of another layout, most likely ",
	} {
		out, _, status := runInput(strings.NewReader(in), "audit")
		assert.Equal(t, exitFailure, status)
		assert.Contains(t, out, want)
	}
	out, _, _ := runInput(strings.NewReader("x, y\n"), "audit")
	assert.NotContains(t, out, "CSV")
	out, _, _ = runInput(strings.NewReader(tweets), "audit", "--layout", "twitter")
	assert.NotContains(t, out, "note:")
	r, _ := audited(t, tweets)
	assert.Len(t, r.Notes, 1)
}

// If the IDs of one process are not sorted, nothing is wrong.
func TestAuditOfShuffledIDs(t *testing.T) {
	first := (newID(t, snowflake.DefaultLayout()) - 100<<22) &^ 4095
	var in strings.Builder
	for _, sequence := range rand.New(rand.NewPCG(1, 1)).Perm(4096) {
		fmt.Fprintln(&in, first+snowflake.ID(sequence))
	}
	out, errs, status := runInput(strings.NewReader(in.String()), "audit")
	assert.Zero(t, status)
	assert.Empty(t, errs)
	assert.Contains(t, out, "\nnothing is wrong\nnote: 1 of the worker IDs: runs of sequence numbers take turns within a tick.")
	assert.NotContains(t, out, "SHARED?")
	assert.Contains(t, out, "takes turns\n")
}

// A rate is of a second, however long the tick is.
func TestAuditOfLongTicks(t *testing.T) {
	r, status := audited(t, "16\n17\n18\n19\n32\n", "--layout", "20/2/2", "--unit", "10s")
	assert.Zero(t, status)
	assert.Equal(t, 0.4, r.Workers[0].PerSecond)
	out, _, _ := runInput(strings.NewReader("16\n17\n18\n19\n32\n"), "audit", "--layout", "20/2/2", "--unit", "10s")
	assert.Regexp(t, `Z  0\.4  `, out)
}

func TestAuditOfEmptyInputHasNoNullInJSON(t *testing.T) {
	out, _, status := runCLI("audit", "--json")
	assert.Equal(t, exitFailure, status)
	for _, list := range []string{"workers", "gaps", "lowBits", "wrong", "notes"} {
		assert.Contains(t, out, `"`+list+`":[]`)
	}
}

func TestAuditOfNothingIsNoSuccess(t *testing.T) {
	for _, args := range []string{"audit", "audit --column id"} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitFailure, status, args)
		assert.Empty(t, errs)
		assert.Contains(t, out, "there is nothing to audit")
	}
}

// If a line is not an ID, it is reported with its number, and the other lines are
// read.
func TestAuditOfBadInput(t *testing.T) {
	id := newID(t, snowflake.DefaultLayout()).String()
	in := "id\n" + id + "\n\x00\x01\xff\xfe\n-5\n9223372036854775808\n" + strings.Repeat("7", 3<<20) + "\n0" + id + "\n1.5\n9223372036854775807\n5"
	r, status := audited(t, in)
	assert.Equal(t, exitFailure, status)
	assert.EqualValues(t, 3, r.IDs)
	assert.Equal(t, []audit.Finding{{At: "line 4", Text: "-5"}}, r.BeforeEpoch.First)
	var lines []string
	for _, f := range r.Unreadable.First {
		lines = append(lines, f.At)
	}
	assert.Equal(t, []string{"line 1", "line 3", "line 5", "line 6", "line 7", "line 8"}, lines)
	assert.Contains(t, r.Unreadable.First[3].Text, "longer than 65536 bytes")
	assert.Equal(t, "line 9", r.Future.First[0].At)

	r, status = audited(t, "\x00\x00")
	assert.Equal(t, exitFailure, status)
	assert.EqualValues(t, 1, r.Unreadable.Count)
	r, status = audited(t, "")
	assert.Equal(t, exitFailure, status)
	assert.Zero(t, r.IDs)
}

func TestAuditOfCSVFiles(t *testing.T) {
	dir := t.TempDir()
	id := newID(t, snowflake.DefaultLayout()) - 10<<22
	a, b := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	require.NoError(t, os.WriteFile(a, fmt.Appendf(nil, "name,id,note\r\n\"Smith \"\"J\"\", Dr., MD\",%d,\"two\nlines, %d\"\nJones,\"%d\",\n\nnobody\n", id, id, id+1), 0o600))
	require.NoError(t, os.WriteFile(b, fmt.Appendf(nil, "name,id\nx,%d\ny,%d\n", id+2, id), 0o600))
	for _, column := range []string{"id", "2"} {
		r, status := audited(t, "", "--column", column, a, b)
		assert.Equal(t, exitFailure, status)
		assert.EqualValues(t, 4, r.IDs, column)
		require.Len(t, r.Repeated, 1)
		assert.Equal(t, id, r.Repeated[0].ID)
		assert.Equal(t, []string{b + ":3"}, r.Repeated[0].At[1:])
		assert.Regexp(t, `a\.csv:[23]$`, r.Repeated[0].At[0])
		require.Len(t, r.Unreadable.First, 1)
		assert.Equal(t, a+":6", r.Unreadable.First[0].At)
		assert.Contains(t, r.Unreadable.First[0].Text, "the record has only 1 column")
	}
	r, _ := audited(t, fmt.Sprintf("%d\tx\n", id), "--column", "1", "--separator", "tab")
	assert.EqualValues(t, 1, r.IDs)
	r, _ = audited(t, fmt.Sprintf("%d,\"x\n%d\n", id, id+1), "--column", "1")
	assert.EqualValues(t, 1, r.Unreadable.Count, "a quote is never closed")
}

// If the column has a number, a header is skipped, whatever the columns' names are. If
// the first line is not text, or begins like a number, it is a bad line.
func TestAuditAcceptsAnyHeader(t *testing.T) {
	for first, bad := range map[string]int64{
		"_id": 0, "id": 0, `"#"`: 0, "№": 0, " id ": 0, "индекс": 0,
		"\x00\x01": 1, "\xff": 1, "-": 1, "1.5": 1, "0x10": 1, "9223372036854775808": 1,
	} {
		r, status := audited(t, first+",name\n5,x\n", "--column", "1")
		assert.EqualValues(t, bad, status, "%q", first)
		assert.Equal(t, bad, r.Unreadable.Count, "%q", first)
		assert.EqualValues(t, 1, r.IDs, "%q", first)
	}
}

func TestAuditReadsAFileNamedLine(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("line", []byte("x\n"), 0o600))
	r, _ := audited(t, "y\n", "line", "-")
	require.Len(t, r.Unreadable.First, 2)
	assert.Equal(t, "line:1", r.Unreadable.First[0].At)
	assert.Equal(t, "line 1", r.Unreadable.First[1].At)
}

func TestAuditNamesTheHolders(t *testing.T) {
	dir := t.TempDir()
	id := succeed(t, "new", "--dir", dir)
	out, _, status := runInput(strings.NewReader(id+id), "audit", "--dir", dir)
	assert.Equal(t, exitFailure, status)
	pid := fmt.Sprintf("pid %d)", os.Getpid())
	assert.Regexp(t, `line 1, line 2; issued by \S+ \(\S+, `+regexpQuote(pid)+"\n", out)
	assert.Regexp(t, `SHARED\? \S+ \(\S+, `+regexpQuote(pid)+"\n", out)
}

func regexpQuote(s string) string { return strings.ReplaceAll(s, ")", `\)`) }

func TestAuditRefusesInput(t *testing.T) {
	for args, names := range map[string]string{
		"audit none.txt":                  "none.txt",
		"audit -n 0":                      "-n 0",
		"audit --column 0":                "columns count from 1",
		"audit --column 2 --separator ;;": `";;"`,
		"audit --separator ;":             "without --column",
		"audit --layout x":                `"x"`,
		"audit --dir none":                "none",
	} {
		out, errs, status := runCLI(strings.Fields(args)...)
		assert.Equal(t, exitUsage, status, args)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, names)
	}
	_, errs, status := runInput(strings.NewReader("a,b\n1,2\n"), "audit", "--column", "id")
	assert.Equal(t, exitUsage, status)
	assert.Contains(t, errs, `standard input: there is no column "id" in the header ["a" "b"]`)
}

func FuzzAudit(f *testing.F) {
	f.Add([]byte("1\n2\r\n1\n3"), []byte("\"a\nb\",5"), uint8(3))
	f.Add([]byte("\x00\xff\n-1\n99999999999999999999"), []byte("\"\"\"\",\"5\"\n"), uint8(0))
	f.Fuzz(func(t *testing.T, a, b []byte, column uint8) {
		args := []string{"audit", "--layout", "20/3/2"}
		if column%4 > 0 {
			args = append(args, "--column", fmt.Sprint(column%4))
		}
		_, errs, _ := runInput(strings.NewReader(string(a)+"\n"+string(b)), args...)
		require.Empty(t, errs)
	})
}
