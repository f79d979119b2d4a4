package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// subject is one table: a row for each value of the keys in rows, a column for
// each of the key in column.
type subject struct {
	bench, title, text string
	rows               []string
	column             string
	units              []unit
	ours               string  // the row of ours that others' are compared with, in each group of the other keys
	noise              float64 // by how much they must differ to be worth a word
}

type unit struct {
	name, title string
	format      func(float64) string
	spread      bool // show the lowest and the highest
	better      int  // -1: less is better, 1: more is, 0: not compared
}

var subjects = []subject{
	{
		bench: "Ratio", title: "Ratios", rows: []string{"of", "over"},
		units: []unit{{"ratio", "ratio", nanos, true, 0}},
		text: `What one costs over another, the two timed in turns for some 100 µs each, by one goroutine; the median of
many pairs, so that a busy machine hardly shows. Over NextID, a peer above 1 is slower than ours. Those of
"write" and "read" are our text forms over bwmarrin's. "NextID,10000" is 10,000 generators that issue in turn: each
comes to a tick that is new to it, from memory that is not in the nearest cache. "Fill,16" is an ID of a batch of 16,
"loop" writes consecutive numbers and nothing else. Where a table below has the same work, each by itself, believe
this one. The
floor is what no generator with a lock and a clock can do without: Lock, one time.Since, Unlock.
The last four are of the default layout, asked for more than it can give by one goroutine or by 64: its
ceiling over the rate that comes, and the time of the processor that an ID takes then over that of the
floor by one.`,
	},
	{
		bench: "Next", title: "One ID", ours: "lib=ours", rows: []string{"lib"}, column: "goroutines", noise: 0.05,
		units: []unit{{"ns/op", "ns an ID", nanos, true, -1}},
		text: `A generator whose ticks are never spent, and goroutines that share it. Snowflake libraries that let
one choose have 21 bits of sequence in a millisecond here; sno's layout is its own (65,536 in 4 ms: it
cannot go below 61 ns), and the others have no such limit. sonyflake v1, godruoyi and GUAIK have a layout
that cannot be changed and is spent at once: they are below.
google-uuid-v7-pool is with EnableRandPool, ksuid-fast with SetRand(FastRander).`,
	},
	{
		bench: "Saturated", title: "At the ceiling", ours: "lib=ours", rows: []string{"bits", "lib"}, column: "goroutines", noise: 0.05,
		units: []unit{{"ids/s", "IDs/s", count, false, 0}, {"%ceiling", "of the ceiling", percent, false, 1}, {"%core", "of a core", percent, false, -1}, {"%core-at-first", "of a core at first", percent, false, 0}},
		text: `More is asked for than the layout can give: how much of its own ceiling comes, and how much of a core
(user and system time of the process) that takes. Half of the time does not count, but for the last figure, which
is of that first half: goroutines that start together sleep and wake together for a while, and contend for the
lock. Bits are those of the sequence: 12 in 1 ms, 8 in 10 ms
(Sonyflake's layout), 16 in 4 ms (sno's) and 6 in 1 ms (what yitter takes when it is told nothing). More
than 100% is not better, and not counted so: yitter stamps up to 2,000 ticks ahead of the clock and then
stops, holding its lock, until the clock is there; the others begin within a tick.`,
	},
	{
		bench: "Tail", title: "The slowest calls", ours: "lib=ours", rows: []string{"bits", "lib"}, column: "goroutines", noise: 0.5,
		units: []unit{{"p50-ns", "p50", shortTime, false, 0}, {"p99-ns", "p99", shortTime, false, -1}, {"p99.9-ns", "p99.9", shortTime, false, -1}, {"longest-ns", "longest", shortTime, false, -1}},
		text: `Each call is timed. That takes two readings of the clock, of which about one is in every figure (lib "none"
calls nothing), and slows the generator's callers down by as much. Where goroutines outnumber cores, the
longest of all calls is that of a goroutine which the scheduler, or the machine, set aside. With 12 bits
a tick is spent, and one call in 4,096 waits for the next: less than p99.9 shows, with one goroutine.`,
	},
	{
		bench: "Wait", title: "The longest wait", ours: "lib=ours", rows: []string{"bits", "lib"}, column: "callers", noise: 0.5,
		units: []unit{{"ideal-ns", "ideal", shortTime, false, 0}, {"longest-ns", "longest", shortTime, false, -1}, {"fewest-ids", "fewest IDs", count, false, 0}, {"most-ids", "most IDs of a caller", count, false, 0}},
		text: `Callers in a loop ask for more than the layout can give, for a second, or for three ticks if that is longer. The longest
wait of one call, beside what a queue in order of arrival would have if waking up took no time; and what the least
and the most fortunate caller got. Bits are those of the sequence, as above; 15 bits are in 1 s (JSSafeLayout), and 1 bit in 1 ms.`,
	},
	{
		bench: "Deadlines", title: "Callers that give up", rows: []string{"bits", "lib", "callers"},
		units: []unit{{"%ceiling", "of the ceiling", percent, true, 0}},
		text: `400 callers in a loop, each of which gives up after 5 to 200 ms, ask for IDs of a layout that has 2 in a
millisecond: what is issued, of what the layout can give.`,
	},
	{
		bench: "Burst", title: "100,000 at once", ours: "lib=ours/way=NextID", rows: []string{"lib", "way"}, noise: 0.05,
		units: []unit{{"ns/op", "ms in all", millis, true, -1}},
		text: `From a generator that has rested, into a slice, in each library's own way and with the bits that it takes
when it is told nothing, or 21 ("ample") or 12 in a millisecond where it says so. 100,000 IDs of a 12-bit
layout are 24.4 ticks, of which the first need not be waited for: with 12 bits, who takes less than some 23 ms
stamps ahead of the clock. Ours does that where BorrowAhead (25 ms here) allows it, yitter always.`,
	},
	{
		bench: "Fill", title: "A batch", rows: []string{"lib"},
		units: []unit{{"ns/op", "ns an ID", nanos, true, 0}, {"allocs/op", "allocations", count, false, 0}},
		text: `Fill of 4,096 IDs at a time, beside ksuid's Sequence: no other peer has the like. So that no tick is ever
spent, its layout has 24 bits of sequence in a millisecond and no worker ID (the layouts of one ID at a
time, above, have fewer); in the default layout Fill waits for the ceiling as NextID does.`,
	},
	{
		bench: "Text", title: "Text forms", ours: "lib=ours", rows: []string{"form", "do"}, column: "lib", noise: 0.05,
		units: []unit{{"ns/op", "ns", nanos, true, -1}, {"allocs/op", "allocations", count, false, 0}},
		text: `Ours beside bwmarrin's of the same base, and beside the standard library with a plain int64 (strconv; in
JSON a field with ",string"). bwmarrin's parsers take more than its writers write, and do not see an
overflow; ours are strict. Reading base 32 and 58 takes us 1.06 to 1.8 times as long as it takes
bwmarrin, by where the linker puts the loop. "json" is a struct through encoding/json, "json-method" the ID's own method.`,
	},
	{
		bench: "Decode", title: "Decode", ours: "lib=ours/call=Decode", rows: []string{"lib", "call"}, noise: 0.05,
		units: []unit{{"ns/op", "ns", nanos, true, -1}},
		text: `Time, worker and sequence of an ID. bwmarrin's Time is an int64 of milliseconds; the row with UnixMilli
makes a time.Time of it, as ours and disgoorg's have. disgoorg's is for Discord's layout alone. sonyflake
returns a map. Of lib "none", "Parts" only returns the 56 bytes that Decode does, and "UnixMilli" only makes a
time.Time in UTC of an int64.`,
	},
	{
		bench: "Memory", title: "Memory", ours: "lib=ours", rows: []string{"lib"}, noise: 0.05,
		units: []unit{{"B/generator", "bytes", count, false, -1}, {"goroutines/generator", "goroutines", count, false, -1}, {"ns/generator", "ns to make", nanos, false, -1}},
		text:  `10,000 generators: what the heap holds and which goroutines run because of them, divided by 10,000.`,
	},
	{
		bench: "Cores", title: "Two generators on two cores", rows: []string{"lib"},
		units: []unit{{"ratio", "ratio", nanos, true, 0}},
		text: `Two goroutines with a generator each, made one after the other, over two goroutines with a floor each (on
cache lines of its own), timed in turns as above, until the slower goroutine is done. "floors-in-a-line" is
two floors on one cache line: what sharing one costs. Our generators share none where the ratio here is
that of NextID over the floor, above; a peer's holds what it costs by itself, too. Where floors-in-a-line
is not well above 1, something else had the second core, and the table shows nothing.`,
	},
}

// machine is what a reader needs to judge the figures, and to repeat them.
type machine struct {
	cores               int
	os, goVersion, date string
	peers               []string
	command             string
	rounds              int
	took                time.Duration
}

// describe says what is known before anything is measured.
func describe(ctx context.Context, dir string) (machine, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-f",
		"{{with .Module}}{{if not (or .Main .Replace .Indirect)}}{{.Path}} {{.Version}}{{end}}{{end}}", ".")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return machine{}, fmt.Errorf("go list: %w", err)
	}
	peers := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(out)), " ", "@"))
	slices.Sort(peers)
	return machine{
		cores:     runtime.NumCPU(),
		os:        runtime.GOOS + "/" + runtime.GOARCH + kernel(),
		goVersion: runtime.Version(),
		date:      time.Now().UTC().Format(time.DateOnly),
		peers:     slices.Compact(peers),
	}, nil
}

// kernel returns the kernel's version as far as it matters.
func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if part := strings.SplitN(string(release), ".", 3); err == nil && len(part) == 3 {
		return ", kernel " + part[0] + "." + part[1]
	}
	return ""
}

const head = `# Benchmarks

Written by ` + "`%s`" + `, which anyone can repeat, on %s.

| | |
|---|---|
| processor | %s |
| system | %s |
| Go | %s |
| peers | %s |

The same work for each library, in %s, each in another order and each benchmark in a process of its own: %v in
all. A figure is the median of the rounds; in brackets, where there are any, are the lowest and the highest,
which tell of the noise: compare only figures that differ by more. The lowest is
what the code takes when nothing else runs. Ratios hold on other machines, nanoseconds do not.

![Nanoseconds an ID, by library, with 1 and with 64 goroutines; the table "One ID" has the figures](benchmarks-next.svg)

![Share of the ceiling and of a core, by library, at 12 bits and 64 goroutines; the table "At the ceiling" has the figures](benchmarks-saturated.svg)
`

func document(m machine, s *samples) string {
	var b strings.Builder
	fmt.Fprintf(&b, head, m.command, m.date, fmt.Sprintf("%s, %d cores", s.cpu, m.cores), m.os, m.goVersion,
		strings.Join(m.peers, ", "), inRounds(m.rounds), m.took.Round(time.Second))
	fmt.Fprintf(&b, "\n## Goals\n\n%s", goalsTable(s))
	for _, sub := range subjects {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", sub.title, sub.text, sub.table(s))
		if sub.ours != "" {
			fmt.Fprintf(&b, "\n%s\n", sub.verdict(s))
		}
	}
	return b.String()
}

func inRounds(n int) string {
	if n == 1 {
		return "one round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// key is a part of a benchmark's name: Next/goroutines=64 has 64 under goroutines.
func key(name, key string) string {
	for part := range strings.SplitSeq(name, "/") {
		if v, ok := strings.CutPrefix(part, key+"="); ok {
			return v
		}
	}
	return ""
}

// cells returns the names of the subject's benchmarks by row and column, and both
// in the order of the source.
func (sub subject) cells(s *samples) (rows, columns []string, cells map[[2]string]string) {
	cells = map[[2]string]string{}
	for _, name := range s.names {
		if bench, _, _ := strings.Cut(name, "/"); bench != sub.bench {
			continue
		}
		var labels []string
		for _, k := range sub.rows {
			labels = append(labels, key(name, k))
		}
		row, column := strings.Join(labels, " | "), key(name, sub.column)
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		cells[[2]string{row, column}] = name
	}
	return rows, columns, cells
}

// table returns the subject's table in Markdown.
func (sub subject) table(s *samples) string {
	rows, columns, cells := sub.cells(s)
	var titles []string
	for _, u := range sub.units {
		titles = append(titles, u.title)
	}
	title := strings.Join(titles, " / ")
	var b strings.Builder
	header := slices.Clone(sub.rows)
	for _, c := range columns {
		switch {
		case c == "":
			header = append(header, title)
		case sub.column == "lib":
			header = append(header, c)
		default:
			header = append(header, sub.column+" "+c)
		}
	}
	if sub.column != "" {
		fmt.Fprintf(&b, "%s:\n\n", title)
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row)
		for _, column := range columns {
			fmt.Fprintf(&b, " %s |", sub.cell(s, cells[[2]string{row, column}]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cell returns what one benchmark reported.
func (sub subject) cell(s *samples, name string) string {
	var parts []string
	for _, u := range sub.units {
		values := s.values[name][u.name]
		if len(values) == 0 {
			continue
		}
		text := u.format(quantile(values, 0.5))
		if u.spread {
			text += fmt.Sprintf(" (%s–%s)", u.format(quantile(values, 0)), u.format(quantile(values, 1)))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " / ")
}

// verdict says where another library is better than ours.
func (sub subject) verdict(s *samples) string {
	var worse []string
	for _, name := range s.names {
		if bench, _, _ := strings.Cut(name, "/"); bench != sub.bench || key(name, "lib") == "ours" {
			continue
		}
		if lib := key(name, "lib"); lib == "floor" || lib == "none" {
			continue
		}
		us := sub.counterpart(name)
		for _, u := range sub.units {
			v, ours := s.median(name, u.name), s.median(us, u.name)
			if u.name == "%ceiling" {
				v, ours = min(v, 100), min(ours, 100)
			}
			if u.better != 0 && float64(u.better)*(v-ours) > sub.noise*ours {
				worse = append(worse, fmt.Sprintf("- %s: %s against our %s (%s).", label(name), u.format(v), u.format(ours), u.title))
			}
		}
	}
	if worse == nil {
		return fmt.Sprintf("No other is better than ours (%s) by more than %.0f%%.", label(sub.ours), 100*sub.noise)
	}
	return fmt.Sprintf("Better than ours (%s) by more than %.0f%%:\n\n%s", label(sub.ours), 100*sub.noise, strings.Join(worse, "\n"))
}

// ample is at the end of a way whose layout has bits to spare.
const ample = ",ample"

// counterpart returns the name of our benchmark that a peer's is to be compared
// with: what sub.ours says, and the rest as the peer's.
func (sub subject) counterpart(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		k, _, _ := strings.Cut(part, "=")
		if v := key(sub.ours, k); v != "" {
			if strings.HasSuffix(part, ample) {
				v += ample
			}
			part = k + "=" + v
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "/")
}

// label returns a name for people: lib=x/goroutines=64 is x, goroutines 64.
func label(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		if k, v, ok := strings.Cut(part, "="); ok {
			if k != "lib" && k != "way" && k != "call" {
				v = k + " " + v
			}
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ", ")
}

func nanos(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return count(v)
}

func millis(v float64) string { return nanos(v / 1e6) }

func percent(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f%%", v)
	}
	return fmt.Sprintf("%.0f%%", v)
}

// count returns a whole number in groups of three digits.
func count(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// shortTime returns nanoseconds to three digits.
func shortTime(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if v >= u.size {
			return fmt.Sprintf("%.3g %s", v/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f ns", v)
}
