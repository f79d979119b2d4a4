// Package examples_test runs the examples and checks their output.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

const clock = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

// examples have one pattern for each line of the output. If the patterns cannot say
// all, check looks at the texts that their groups caught.
var examples = map[string]struct {
	lines []string
	check func(t *testing.T, caught []string)
}{
	"basic": {
		lines: []string{
			`layout: time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00\.000Z`,
			``,
			`id:     (\d+)`,
			`base62: ([0-9A-Za-z]{11})`,
			`parts:  (time=` + clock + ` worker=7 sequence=\d+)`,
			``,
			`id:     (\d+)`,
			`base62: ([0-9A-Za-z]{11})`,
			`parts:  (time=` + clock + ` worker=7 sequence=\d+)`,
			``,
			`id:     (\d+)`,
			`base62: ([0-9A-Za-z]{11})`,
			`parts:  (time=` + clock + ` worker=7 sequence=\d+)`,
		},
		check: func(t *testing.T, caught []string) {
			last := snowflake.ID(0)
			for ; len(caught) > 0; caught = caught[3:] {
				id := parse(t, caught[0])
				if id <= last {
					t.Errorf("%v came after %v", id, last)
				}
				if got := id.Base62(); got != caught[1] {
					t.Errorf("%v in base 62 is %s, not %s", id, got, caught[1])
				}
				if got := snowflake.Decode(id).String(); got != caught[2] {
					t.Errorf("%v decodes to %s, not %s", id, got, caught[2])
				}
				last = id
			}
		},
	},
	"backfill": {
		lines: []string{
			`rows:       1000000`,
			`unique IDs: 1000000`,
			`stamped with their row's time: 1000000`,
			`most rows in a millisecond: [12]\d`,
			`too early:  row 7: snowflake: time before the epoch: 2026-10-31T18:00:00\.000Z is before 2027-10-31T18:00:00\.000Z`,
		},
		check: func(*testing.T, []string) {},
	},
	"batch": {
		lines: []string{
			`BorrowAhead 0s`,
			`  made:  100000 IDs in \S+`,
			`  first: (\d+)  time=` + clock + ` worker=1 sequence=0`,
			`  last:  (\d+)  time=` + clock + ` worker=1 sequence=\d+`,
			`  stats: issued 100000, waited [1-9]\d* times \([1-9]\S*\), borrowed 0 ticks`,
			`BorrowAhead 50ms`,
			`  made:  100000 IDs in \S+`,
			`  first: (\d+)  time=` + clock + ` worker=1 sequence=0`,
			`  last:  (\d+)  time=` + clock + ` worker=1 sequence=\d+`,
			`  stats: issued 100000, waited 0 times \(0s\), borrowed [1-9]\d* ticks`,
		},
		check: func(t *testing.T, caught []string) {
			for ; len(caught) > 0; caught = caught[2:] {
				first, last := snowflake.Decode(parse(t, caught[0])), snowflake.Decode(parse(t, caught[1]))
				if ticks := last.Time.Sub(first.Time).Milliseconds(); ticks < 24 {
					t.Errorf("100,000 IDs lie within %d ms, which have no room for them", ticks+1)
				}
			}
		},
	},
	"clockback": {
		lines: []string{
			`FailPolicy, clock set back by 1h0m0s`,
			`  right: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T13:.* worker=1 sequence=0`,
			`  back:  no ID, the clock is (?:1h0m0s|59m59\.\d+s) behind`,
			`  waited 0s, bumps 0, rewinds 0`,
			`WaitPolicy, clock set back by 200ms`,
			`  right: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  back:  (\d+)  time=2026-07-01T12:.* worker=1 sequence=\d`,
			`  waited [12]\d\dms, bumps 0, rewinds 0`,
			`WaitPolicy, clock set back by 1h0m0s`,
			`  right: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T13:.* worker=1 sequence=0`,
			`  back:  no ID, the clock is (?:1h0m0s|59m59\.\d+s) behind`,
			`  waited 0s, bumps 0, rewinds 0`,
			`ClockSeqPolicy, clock set back by 1h0m0s`,
			`  right: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T13:.* worker=1 sequence=0`,
			`  back:  (\d+)  time=2026-07-01T12:.* clockseq=1 worker=1 sequence=0`,
			`  waited 0s, bumps 1, rewinds 0`,
			`RewindPolicy, clock set back by 1m0s`,
			`  right: (\d+)  time=2026-07-01T12:00:00\.000Z worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T12:01:00\.000Z worker=1 sequence=0`,
			`  back:  (\d+)  time=2026-07-01T12:00:00\.000Z worker=1 sequence=1`,
			`  waited 0s, bumps 0, rewinds 1`,
			`decide, clock set back by 200ms`,
			`  right: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  decide: the clock is [12]\d\dms behind, can bump: true`,
			`  back:  (\d+)  time=2026-07-01T12:.* worker=1 sequence=\d`,
			`  waited [12]\d\dms, bumps 0, rewinds 0`,
			`decide, clock set back by 1h0m0s`,
			`  right: (\d+)  time=2026-07-01T12:.* worker=1 sequence=0`,
			`  ahead: (\d+)  time=2026-07-01T13:.* worker=1 sequence=0`,
			`  decide: the clock is (?:1h0m0s|59m59\.\d+s) behind, can bump: true`,
			`  back:  (\d+)  time=2026-07-01T12:.* clockseq=1 worker=1 sequence=0`,
			`  waited 0s, bumps 1, rewinds 0`,
		},
		check: func(t *testing.T, caught []string) {
			// If the policy waited, the order is kept: IDs 2 to 4 and 13 to 15.
			for _, at := range []int{2, 13} {
				if right, ahead, back := parse(t, caught[at]), parse(t, caught[at+1]), parse(t, caught[at+2]); right >= ahead || ahead >= back {
					t.Errorf("%v, %v and %v are not in order", right, ahead, back)
				}
			}
		},
	},
	"json": {
		lines: []string{
			`layout: time=41 worker=10 sequence=12 .*`,
			`  (\d+) as a string: \{"id":"(\d+)"\}, back as (\d+)`,
			`  \d+ as a number: back as (\d+), the same: (?:true|false)`,
			`  (\d+) as a string: \{"id":"(\d+)"\}, back as (\d+)`,
			`  \d+ as a number: back as (\d+), the same: false`,
			`layout: time=33 worker=4 sequence=15 .*`,
			`  (\d+) as a string: \{"id":"(\d+)"\}, back as (\d+)`,
			`  \d+ as a number: back as (\d+), the same: true`,
			`  (\d+) as a string: \{"id":"(\d+)"\}, back as (\d+)`,
			`  \d+ as a number: back as (\d+), the same: true`,
		},
		check: func(t *testing.T, caught []string) {
			for at := 0; at < len(caught); at += 4 {
				if id := caught[at]; caught[at+1] != id || caught[at+2] != id {
					t.Errorf("%s was not kept by a string: %q", id, caught[at+1:at+3])
				}
			}
			assert.Equal(t, caught[7], caught[3])
			require.Equal(t, caught[8], caught[11])
			assert.Equal(t, caught[12], caught[15])
		},
	},
	"lease": {
		lines: []string{
			`worker: (\d+)`,
			`id:     (\d+) time=` + clock + ` worker=\d+ sequence=\d+`,
			`id:     (\d+) time=` + clock + ` worker=\d+ sequence=\d+`,
			`id:     (\d+) time=` + clock + ` worker=\d+ sequence=\d+`,
			`worker: lease: released`,
		},
		check: func(t *testing.T, caught []string) {
			a, b, c := parse(t, caught[1]), parse(t, caught[2]), parse(t, caught[3])
			require.Less(t, a, b)
			assert.Less(t, b, c)
			if worker := fmt.Sprint(snowflake.Decode(c).Worker); worker != caught[0] {
				t.Errorf("the worker ID is %s, and %v has %s", caught[0], c, worker)
			}
		},
	},
	"logging": {
		lines: []string{
			`time=\S+ level=INFO msg="order created" id=(\d+) parts\.time=(` + clock + `) parts\.worker=7 parts\.sequence=0`,
			`\{"time":"[^"]+","level":"INFO","msg":"order created","id":"(\d+)","parts":\{"time":"([^"]+)","worker":7,"sequence":0\}\}`,
		},
		check: func(t *testing.T, caught []string) {
			assert.Equal(t, caught[2], caught[0])
			if want := "time=" + caught[1] + " "; !strings.HasPrefix(snowflake.Decode(parse(t, caught[0])).String(), want) {
				t.Errorf("%s was not stamped at %s", caught[0], caught[1])
			}
		},
	},
}

func TestExamples(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	built, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, built, len(examples), "there are %d programs: %v, and %d of them are tested", len(built), built, len(examples))

	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			program := exec.Command(filepath.Join(dir, name))
			program.Stderr = t.Output()
			out, err := program.Output()
			require.NoError(t, err, "%v, after it printed:\n%s", err, out)
			lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			require.Len(t, lines, len(want.lines), "it printed %d lines, not %d:\n%s", len(lines), len(want.lines), out)
			var caught []string
			for i, line := range lines {
				match := regexp.MustCompile(`^` + want.lines[i] + `$`).FindStringSubmatch(line)
				if match == nil {
					t.Fatalf("line %d is\n%s\nand does not match\n%s", i+1, line, want.lines[i])
				}
				caught = append(caught, match[1:]...)
			}
			want.check(t, caught)
		})
	}
}

func parse(t *testing.T, s string) snowflake.ID {
	t.Helper()
	id, err := snowflake.ParseID(s)
	require.NoError(t, err)
	return id
}
