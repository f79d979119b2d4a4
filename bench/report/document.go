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

// subject is one table: it has a row for each value of the keys in rows, and a
// column for each value of the key in column.
type subject struct {
	bench, title, text string
	rows               []string
	column             string
	units              []unit
	ours               string  // our row, with which the others are compared, in each group of the other keys
	noise              float64 // a smaller difference is not mentioned
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
		text: `The time of one call divided by the time of another. One goroutine times the two in turns, for some 100 µs each. A figure
is the median of many pairs, so a busy machine hardly changes it: if a table below has the same work, this table is more
reliable. If "over" is NextID and the ratio is above 1, the peer is slower than ours. "write" and "read" are our text forms,
"NextID,10000" is 10,000 generators that issue in turn, so that none is in the nearest cache, "Fill,16" is one ID in a batch
of 16, and "loop" writes consecutive numbers. In the last four rows, one goroutine or 64 ask the default layout for more IDs
than it has: two rows are its ceiling over the rate of IDs, and two are the processor time of an ID over the floor's.`,
	},
	{
		bench: "Next", title: "One ID", ours: "lib=ours", rows: []string{"lib"}, column: "goroutines", noise: 0.05,
		units: []unit{{"ns/op", "ns an ID", nanos, true, -1}},
		text: `Goroutines share one generator, which never runs out of IDs in a tick. If a snowflake library has a configurable layout,
it has 21 bits of sequence in a millisecond here. sno's layout is fixed: an ID takes at least 61 ns. The fixed layouts of
sonyflake v1, godruoyi and GUAIK run out at once, so they are in the next tables only. google-uuid-v7-pool is with
EnableRandPool, ksuid-fast with SetRand(FastRander).`,
	},
	{
		bench: "Saturated", title: "At the ceiling", ours: "lib=ours", rows: []string{"bits", "lib"}, column: "goroutines", noise: 0.05,
		units: []unit{{"ids/s", "IDs/s", count, false, 0}, {"%ceiling", "of the ceiling", percent, false, 1}, {"%core", "of a core", percent, false, -1}, {"%core-at-first", "of a core at first", percent, false, 0}},
		text: `Goroutines ask for more IDs than the layout has. The table shows which part of the layout's ceiling a library issues, and
which part of a core that takes (user and system time of the process). The first half of the time does not count, because
goroutines that start together contend for the lock for a while; only the last figure is of that half. "bits" is the size of
the sequence: 12 bits in 1 ms, 8 in 10 ms (Sonyflake's layout), 16 in 4 ms (sno's) and 6 in 1 ms (yitter's default).
More than 100% does not count as better: yitter stamps up to 2,000 ticks ahead of the clock, and then holds its lock until the
clock has caught up.`,
	},
	{
		bench: "Tail", title: "The slowest calls", ours: "lib=ours", rows: []string{"bits", "lib"}, column: "goroutines", noise: 0.5,
		units: []unit{{"p50-ns", "p50", shortTime, false, 0}, {"p99-ns", "p99", shortTime, false, -1}, {"p99.9-ns", "p99.9", shortTime, false, -1}, {"longest-ns", "longest", shortTime, false, -1}},
		text: `Each call is timed. About one reading of the clock is in every figure: lib "none" calls nothing and shows how much that is.
If there are more goroutines than cores, the longest call is the call of a goroutine that the scheduler or the machine set
aside. With 12 bits, one call in 4,096 waits for the next tick.`,
	},
	{
		bench: "Wait", title: "The longest wait", ours: "lib=ours", rows: []string{"bits", "lib"}, column: "callers", noise: 0.5,
		units: []unit{{"ideal-ns", "ideal", shortTime, false, 0}, {"longest-ns", "longest", shortTime, false, -1}, {"fewest-ids", "fewest IDs", count, false, 0}, {"most-ids", "most IDs of a caller", count, false, 0}},
		text: `Callers in a loop ask for more IDs than the layout has, for a second, or for three ticks if that is longer. "longest" is the
longest wait of one call. "ideal" is the longest wait in a queue in order of arrival if waking up took no time. "bits" is the
size of the sequence, as above; 15 bits are in 1 s (JSSafeLayout), and 1 bit in 1 ms.`,
	},
	{
		bench: "Deadlines", title: "Callers that give up", rows: []string{"bits", "lib", "callers"},
		units: []unit{{"%ceiling", "of the ceiling", percent, true, 0}},
		text:  `400 callers in a loop ask for IDs of a layout that has 2 IDs in a millisecond. Each call gives up after 5 to 200 ms.`,
	},
	{
		bench: "Burst", title: "100,000 at once", ours: "lib=ours/way=NextID", rows: []string{"lib", "way"}, noise: 0.05,
		units: []unit{{"ns/op", "ms in all", millis, true, -1}},
		text: `A generator that has rested fills a slice, in the way that its library offers and with the library's default layout. If a row
says "ample" or "12bit", the sequence has 21 or 12 bits in a millisecond instead. In a 12-bit layout, 100,000 IDs need 24.4
ticks, and only the first tick needs no wait. So if a library with 12 bits takes less than some 23 ms, it stamps ahead of the
clock. Ours does so if BorrowAhead (25 ms here) allows it, and yitter always does.`,
	},
	{
		bench: "Fill", title: "A batch", rows: []string{"lib"},
		units: []unit{{"ns/op", "ns an ID", nanos, true, 0}, {"allocs/op", "allocations", count, false, 0}},
		text: `Fill takes 4,096 IDs at a time. Only one peer has such a call: ksuid's Sequence. Fill's layout has 24 bits of sequence in a
millisecond, so that a tick never runs out of IDs. In the default layout Fill waits at the ceiling as NextID does.`,
	},
	{
		bench: "Text", title: "Text forms", ours: "lib=ours", rows: []string{"form", "do"}, column: "lib", noise: 0.05,
		units: []unit{{"ns/op", "ns", nanos, true, -1}, {"allocs/op", "allocations", count, false, 0}},
		text: `Our text forms, bwmarrin's of the same base, and the standard library's for a plain int64 (strconv; in JSON a field with
",string"). Our parsers are strict. bwmarrin's parsers also read texts that its writers never write, and do not notice an
overflow. "json" is a struct through encoding/json, "json-method" is the method of the ID.`,
	},
	{
		bench: "Decode", title: "Decode", ours: "lib=ours/call=Decode", rows: []string{"lib", "call"}, noise: 0.05,
		units: []unit{{"ns/op", "ns", nanos, true, -1}},
		text: `Time, worker and sequence of an ID. bwmarrin's Time is an int64 of milliseconds. The row with UnixMilli turns it into a
time.Time, which ours and disgoorg's have. disgoorg's works for Discord's layout alone. sonyflake returns a map. lib "none"
decodes nothing: "Parts" only returns 56 bytes as Decode does, and "UnixMilli" only turns an int64 into a time.Time in UTC.`,
	},
	{
		bench: "Memory", title: "Memory", ours: "lib=ours", rows: []string{"lib"}, noise: 0.05,
		units: []unit{{"B/generator", "bytes", count, false, -1}, {"goroutines/generator", "goroutines", count, false, -1}, {"ns/generator", "ns to make", nanos, false, -1}},
		text:  `10,000 generators: what the heap holds and which goroutines run because of them, divided by 10,000.`,
	},
	{
		bench: "Cores", title: "Two generators on two cores", rows: []string{"lib"},
		units: []unit{{"ratio", "ratio", nanos, true, 0}},
		text: `Two goroutines each use a generator of a library, and two other goroutines each use a floor, in turns. The two generators are
made one after the other; the two floors are on different cache lines. The ratio is the generators' time over the floors'.
If ours equals NextID's over the floor, above, our generators share no cache line. "floors-in-a-line" is two floors on one
cache line: if it is not well above 1, another program had the second core, and the table shows nothing.`,
	},
}

// machine describes the machine, so that a reader can judge and repeat the figures.
type machine struct {
	cores               int
	os, goVersion, date string
	peers               []string
	command             string
	rounds              int
	took                time.Duration
}

// describe fills in all that is known before the measurements.
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

// kernel returns the kernel's version, without the parts that do not matter.
func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if part := strings.SplitN(string(release), ".", 3); err == nil && len(part) == 3 {
		return ", kernel " + part[0] + "." + part[1]
	}
	return ""
}

const head = `# Benchmarks

Median figures of the same work for each library, on %s. [All figures](benchmarks-all.md) has the rest, with their
spread. A dash: not measured, because the library has another kind of layout.

%s
![Nanoseconds an ID, by library, with 1 and with 64 goroutines](benchmarks-next.svg)

![Share of the ceiling and of a core, by library, at 12 bits and 64 goroutines](benchmarks-saturated.svg)

The floor is the work that every generator with a lock and a clock has to do: Lock, one time.Since, Unlock. The ceiling is the number of
IDs that a layout has, here 4,096,000 a second. Ratios hold on other machines, nanoseconds do not.

## This library

%s
## Goals

%s
## How it was measured

By ` + "`%s`" + `, which anyone can repeat, on %s. It took %v. Each library does the same work in %s. Each round has another order, and each
benchmark runs in a separate process. A figure is the median of the rounds. If there are brackets, they have the lowest and the
highest figure, which show the noise: compare only figures that differ by more.

| | |
|---|---|
| processor | %s |
| system | %s |
| Go | %s |
| peers | %s |
`

// document is the page that a reader decides by.
func document(m machine, s *samples) string {
	cpu := fmt.Sprintf("%s, %d cores", s.cpu, m.cores)
	return fmt.Sprintf(head, cpu, comparison(s), summary(s), goalsTable(goals(s), "benchmarks-all.md"),
		m.command, m.date, m.took.Round(time.Second), inRounds(m.rounds), cpu, m.os, m.goVersion, strings.Join(m.peers, ", "))
}

const detailsHead = `# All figures

The tables behind [Benchmarks](benchmarks.md), which says how they were measured. Written by ` + "`go run ./bench/report`" + `.
`

// details has all tables.
func details(s *samples) string {
	var b strings.Builder
	b.WriteString(detailsHead)
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

// verdict names the rows in which another library is better than ours.
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
				worse = append(worse, fmt.Sprintf("%s: %s against our %s (%s)", label(name), u.format(v), u.format(ours), u.title))
			}
		}
	}
	if worse == nil {
		return fmt.Sprintf("No other is better than ours (%s) by more than %.0f%%.", label(sub.ours), 100*sub.noise)
	}
	return fmt.Sprintf("Better than ours (%s) by more than %.0f%%: %s.", label(sub.ours), 100*sub.noise, strings.Join(worse, "; "))
}

// ample is at the end of a way whose layout has bits to spare.
const ample = ",ample"

// counterpart returns the name of our benchmark to compare a peer's with: sub.ours
// for our part, and the peer's values for all other keys.
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
