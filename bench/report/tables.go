package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A subject is a table of a benchmark. It has a row for each value of the keys in rows (one row if
// there are no keys), and a column for each value of the key in column. A cell lists the figures
// for each value of the key in list.
type subject struct {
	bench        string
	rows         []string
	column, list string
	units        []unit
}

type unit struct {
	name, title string
	format      func(float64) string
	spread      bool // show the lowest and the highest value
}

// subjects are the tables of bench/figures.txt.
var subjects = []subject{
	{"Ratio", []string{"over"}, "", "of", []unit{{"ratio", "ratio", nanos, true}}},
	{"Next", []string{"lib"}, "goroutines", "", []unit{{"ns/op", "ns an ID", nanos, true}}},
	{"Saturated", []string{"bits", "lib"}, "goroutines", "", []unit{{"ids/s", "IDs/s", count, false},
		{"%ceiling", "of the ceiling", percent, false}, {"%core", "of a core", percent, false}, {"%core-at-first", "of a core at first", percent, false}}},
	{"Tail", []string{"bits", "lib"}, "goroutines", "", []unit{{"p50-ns", "p50", shortTime, false},
		{"p99-ns", "p99", shortTime, false}, {"p99.9-ns", "p99.9", shortTime, false}, {"longest-ns", "longest", shortTime, false}}},
	{"Wait", []string{"bits", "lib"}, "callers", "", []unit{{"ideal-ns", "ideal", shortTime, false},
		{"longest-ns", "longest", shortTime, false}, {"fewest-ids", "fewest IDs", count, false}, {"most-ids", "most IDs of a caller", count, false}}},
	{"Burst", []string{"lib"}, "", "way", []unit{{"ns/op", "ms in all", millis, true}}},
	{"Fill", nil, "lib", "", []unit{{"ns/op", "ns an ID", nanos, true}, {"allocs/op", "allocations", count, false}}},
	{"Text", []string{"form"}, "lib", "do", []unit{{"ns/op", "ns", nanos, true}, {"allocs/op", "allocations", count, false}}},
	{"Decode", []string{"lib"}, "", "call", []unit{{"ns/op", "ns", nanos, true}}},
	{"Memory", nil, "lib", "", []unit{{"B/generator", "bytes", count, false},
		{"goroutines/generator", "goroutines", count, false}, {"ns/generator", "ns to make", nanos, false}}},
	{"Cores", nil, "lib", "", []unit{{"ratio", "ratio", nanos, true}}},
}

// place matches a table of a page and its name.
var place = regexp.MustCompile(`(?s)<!-- table (\S+) -->\n.*?<!-- end -->`)

// writeTables replaces tables of pages, each between <!-- table NAME --> and <!-- end -->. Each
// table must have one place, in one of the pages. Places without a table stay as they are.
func writeTables(tables map[string]string, pages ...string) error {
	texts, left := map[string]string{}, len(tables)
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		texts[path] = place.ReplaceAllStringFunc(string(page), func(old string) string {
			name := place.FindStringSubmatch(old)[1]
			table, ok := tables[name]
			if !ok {
				return old
			}
			left--
			if filepath.Ext(path) == ".txt" {
				table = aligned(table)
			}
			return "<!-- table " + name + " -->\n" + table + "<!-- end -->"
		})
	}
	if left != 0 {
		return fmt.Errorf("%s have not one place for each of %d tables", strings.Join(pages, " and "), len(tables))
	}
	for path, text := range texts {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// aligned returns a table of Markdown as columns of plain text. A list in a cell has a line for
// each item.
func aligned(table string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		row, isRow := strings.CutPrefix(line, "| ")
		switch {
		case !isRow && !strings.HasPrefix(line, "|"):
			fmt.Fprintln(w, line)
		case isRow:
			cells, more := strings.Split(strings.TrimSuffix(row, " |"), " | "), true
			for more {
				more = false
				for i, cell := range cells {
					item, rest, isList := strings.Cut(cell, "; ")
					cells[i], more = rest, more || isList
					if i > 0 {
						item = "\t" + item
					}
					fmt.Fprint(w, item)
				}
				fmt.Fprintln(w)
			}
		}
	}
	w.Flush()
	return regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n")
}

// tables returns a table for each subject.
func tables(s *samples, subjects []subject) map[string]string {
	tables := make(map[string]string)
	for _, sub := range subjects {
		tables[sub.bench] = sub.table(s)
	}
	return tables
}

// machine describes the machine and the measurement, so that a reader can judge and repeat the
// figures.
func machine(s *samples, command string, start time.Time, others, versions string) string {
	system := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		system += ", kernel " + regexp.MustCompile(`^\d+\.\d+`).FindString(string(release))
	}
	return markdown([]string{"command", "`" + command + "`"}, [][]string{
		{"on", fmt.Sprintf("%s, for %v", start.UTC().Format(time.DateOnly), time.Since(start).Round(time.Second))},
		{"processor", fmt.Sprintf("%s, %d cores", s.cpu, runtime.NumCPU())},
		{"system", system},
		{"Go", runtime.Version()},
		{others, versions},
	})
}

// makes returns a page's table of processors, with the row of s first. It replaces an earlier row
// of the same processor.
func makes(page string, s *samples, day time.Time) string {
	ratio := func(name string) string { return thousandths(s.median("Ratio/"+name, "ratio")) }
	row := []string{s.cpu, day.UTC().Format(time.DateOnly), ratio("of=NextID/over=mutex-and-clock"),
		ratio("of=NextID/over=bwmarrin"), ratio("of=NextID,leased/over=NextID")}
	for _, goroutines := range []string{"2", "8", "64", "1000"} {
		row = append(row, cmp.Or(noSlower(s, goroutines).measured, "–"))
	}
	rows := [][]string{row}
	_, old, _ := strings.Cut(page, "<!-- table makes -->\n")
	old, _, _ = strings.Cut(old, "<!-- end -->")
	for i, line := range strings.Split(strings.TrimSpace(old), "\n") {
		if cells := strings.Split(strings.Trim(line, "| "), " | "); i > 1 && cells[0] != s.cpu {
			rows = append(rows, cells)
		}
	}
	return markdown([]string{"processor", "measured", "over a mutex and a clock", "over bwmarrin", "leased over not leased",
		"2 goroutines", "8", "64", "1,000"}, rows)
}

// peers returns the measured modules.
func peers(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-f",
		"{{with .Module}}{{if not (or .Main .Replace .Indirect)}}{{.Path}}@{{.Version}}{{end}}{{end}}", ".").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	peers := strings.Fields(string(out))
	slices.Sort(peers)
	return strings.Join(slices.Compact(peers), ", "), nil
}

// key returns the value of a key in a benchmark's name: Next/goroutines=64 has 64 for goroutines.
func key(name, key string) string {
	for part := range strings.SplitSeq(name, "/") {
		if v, ok := strings.CutPrefix(part, key+"="); ok {
			return v
		}
	}
	return ""
}

// comparison returns the table with a row for each library.
func comparison(s *samples) string {
	columns := []struct {
		title, bench, key, value string
		units                    []unit
	}{
		{"ns an ID, 1 goroutine", "Next", "goroutines", "1", []unit{{name: "ns/op", format: nanos}}},
		{"64 goroutines", "Next", "goroutines", "64", []unit{{name: "ns/op", format: nanos}}},
		{"of the ceiling / of a core, 12 bits, 64 goroutines", "Saturated/bits=12", "goroutines", "64",
			[]unit{{name: "%ceiling", format: percent}, {name: "%core", format: percent}}},
		{"longest wait of 1,000 callers, 12 bits", "Wait/bits=12", "callers", "1000", []unit{{name: "longest-ns", format: shortTime}}},
	}
	header := []string{"library"}
	var libs []string
	for _, c := range columns {
		header = append(header, c.title)
		for _, name := range s.names {
			if lib := key(name, "lib"); strings.HasPrefix(name, c.bench+"/") && key(name, c.key) == c.value && !slices.Contains(libs, lib) {
				libs = append(libs, lib)
			}
		}
	}
	var rows [][]string
	for _, lib := range libs {
		row := []string{lib}
		for _, c := range columns {
			row = append(row, cmp.Or(cell(s, c.units, fmt.Sprintf("%s/lib=%s/%s=%s", c.bench, lib, c.key, c.value)), "–"))
		}
		rows = append(rows, row)
	}
	return markdown(header, rows)
}

// table returns the subject's table in Markdown. Rows and columns are in the order of the source.
func (sub subject) table(s *samples) string {
	var titles []string
	for _, u := range sub.units {
		titles = append(titles, u.title)
	}
	title := strings.Join(titles, " / ")
	var rows, columns []string
	cells := map[[2]string]string{}
	for _, name := range s.names {
		if bench, _, _ := strings.Cut(name, "/"); bench != sub.bench {
			continue
		}
		var labels []string
		for _, k := range sub.rows {
			labels = append(labels, key(name, k))
		}
		row, column := cmp.Or(strings.Join(labels, " | "), title), key(name, sub.column)
		rows, columns = append(rows, row), append(columns, column)
		at, text := [2]string{row, column}, cell(s, sub.units, name)
		if sub.list != "" {
			text = key(name, sub.list) + " " + text
		}
		if cells[at] != "" {
			text = cells[at] + "; " + text
		}
		cells[at] = text
	}
	columns = unique(columns)
	header, above := slices.Clone(sub.rows), ""
	for _, c := range columns {
		switch sub.column {
		case "":
			header = append(header, title)
		case "lib":
			header = append(header, c)
		default:
			header = append(header, sub.column+" "+c)
		}
	}
	switch {
	case len(sub.rows) == 0:
		header = slices.Insert(header, 0, "")
	case sub.column != "":
		above = title + ":\n\n"
	}
	var lines [][]string
	for _, row := range unique(rows) {
		line := []string{row}
		for _, column := range columns {
			line = append(line, cells[[2]string{row, column}])
		}
		lines = append(lines, line)
	}
	return above + markdown(header, lines)
}

// unique returns the values without repetitions.
func unique(values []string) (all []string) {
	for _, v := range values {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

func markdown(header []string, rows [][]string) string {
	text := "| " + strings.Join(header, " | ") + " |\n|" + strings.Repeat("---|", len(header)) + "\n"
	for _, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
	}
	return text
}

// cell returns the figures of a benchmark.
func cell(s *samples, units []unit, name string) string {
	var parts []string
	for _, u := range units {
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

func micros(v float64) string { return nanos(v / 1e3) }

func millis(v float64) string { return nanos(v / 1e6) }

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }

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

// shortTime formats nanoseconds with three digits.
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
