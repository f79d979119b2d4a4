package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is a goal for a figure of the library, and the measured figure.
type goal struct {
	text, of, measured string // of tells apart goals with the same text
	met                bool
	where              string // the title of the table
}

// known reports whether a goal's figures were measured.
func known(values ...float64) bool {
	return !slices.ContainsFunc(values, math.IsNaN)
}

// goalsTable returns the goals as a table in Markdown, with the titles of their tables.
func goalsTable(all []goal) string {
	var rows [][]string
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].text == all[0].text {
			n++
		}
		rows = append(rows, goalsRow(all[:n]))
		all = all[n:]
	}
	return markdown([]string{"goal", "measured", "met", "table"}, rows)
}

// goalsRow returns the row of the goals with one text. If some are missed, it has the figures of
// these.
func goalsRow(goals []goal) []string {
	var measured, missed, unknown []string
	for _, g := range goals {
		figure := strings.TrimPrefix(g.of+": "+g.measured, ": ")
		switch {
		case g.measured == "":
			unknown = append(unknown, g.of)
			continue
		case !g.met:
			missed = append(missed, figure)
		}
		measured = append(measured, figure)
	}
	var met []string
	if len(missed) > 0 {
		no := "no"
		if len(measured) > 1 {
			no = fmt.Sprintf("no, %d of %d", len(missed), len(measured))
		}
		met, measured = append(met, no), missed
	}
	if len(unknown) > 0 {
		met = append(met, strings.TrimSuffix("not measured: "+strings.Join(unknown, "; "), ": "))
	}
	return []string{
		goals[0].text,
		cmp.Or(strings.Join(measured, "; "), "–"),
		cmp.Or(strings.Join(met, "; "), "yes"),
		goals[0].where,
	}
}

func goals(s *samples) []goal {
	all := []goal{
		atMost(s, "NextID no slower than a mutex and a clock", "Ratio/of=NextID/over=mutex-and-clock", "ratio", 1, thousandths, "Ratios"),
		fasterThanEach(s),
	}
	for _, goroutines := range []string{"2", "8", "64", "1000"} {
		all = append(all, noSlower(s, goroutines))
	}
	for _, name := range s.names {
		if strings.HasPrefix(name, "Saturated/") && key(name, "lib") == "ours" {
			all = append(all, saturates(s, name))
		}
	}
	for _, name := range s.names {
		if strings.HasPrefix(name, "Wait/") && key(name, "lib") == "ours" {
			all = append(all, waits(s, name))
		}
	}
	return append(all,
		nearlyAll(s, "99% of the ceiling with callers that give up", "Deadlines/bits=1/lib=ours/callers=400", "At the ceiling"),
		atMost(s, "Fill at most 1.0 ns an ID", "Fill/lib=ours", "ns/op", 1, unitOf(nanos, "ns"), "A batch"),
		atMost(s, "100,000 IDs with BorrowAhead in at most 0.2 ms", "Burst/lib=ours/way=Fill,BorrowAhead", "ns/op", 0.2e6,
			unitOf(millis, "ms"), "100,000 at once"),
		atMost(s, "Decode at most 2 ns", "Decode/lib=ours/call=Decode", "ns/op", 2, unitOf(nanos, "ns"), "Decode"),
		textNoSlower(s),
		atMost(s, "a generator at most 256 bytes", "Memory/lib=ours", "B/generator", 256, count, "Memory"),
		atMost(s, "NextID with a lease within 2% of one without", "Ratio/of=NextID,leased/over=NextID", "ratio", 1.02,
			thousandths, "Ratios"))
}

func thousandths(v float64) string {
	if !known(v) {
		return "–"
	}
	return fmt.Sprintf("%.3f", v)
}

func unitOf(format func(float64) string, unit string) func(float64) string {
	return func(v float64) string { return format(v) + " " + unit }
}

// atMost returns a goal for one figure with an upper limit.
func atMost(s *samples, text, name, unit string, limit float64, format func(float64) string, where string) goal {
	g := goal{text: text, where: where}
	if v := s.median(name, unit); known(v) {
		g.measured, g.met = format(v), v <= limit
	}
	return g
}

// nearlyAll returns a goal of 99% of the ceiling.
func nearlyAll(s *samples, text, name, where string) goal {
	measured := cell(s, []unit{{name: "%ceiling", format: percent, spread: true}}, name)
	return goal{text: text, measured: measured, met: s.median(name, "%ceiling") >= 99, where: where}
}

// fasterThanEach returns the goal for the ratios of this library's time and each peer's, measured
// in turns.
func fasterThanEach(s *samples) goal {
	g := goal{text: "NextID in at most 0.95 of the time of every peer, by one goroutine", where: "Ratios"}
	worst := 0.0
	for _, name := range s.names {
		of, over, v := key(name, "of"), key(name, "over"), s.median(name, "ratio")
		switch {
		case !strings.HasPrefix(name, "Ratio/") || !known(v):
			continue
		case of == "NextID" && over != "mutex-and-clock":
			of = over
		case over == "NextID" && of != "NextID,leased":
			v = 1 / v
		default:
			continue
		}
		if v > worst {
			worst = v
			g.measured, g.met = fmt.Sprintf("%s of the time of %s, the fastest peer", thousandths(v), of), v <= 0.95
		}
	}
	return g
}

// noSlower returns the goal of a comparison with the fastest peer.
func noSlower(s *samples, goroutines string) goal {
	g := goal{text: "NextID no slower than the best peer", of: goroutines + " goroutines", where: "One ID"}
	ours := s.median("Next/lib=ours/goroutines="+goroutines, "ns/op")
	best, peer := math.Inf(1), ""
	for _, name := range s.names {
		lib := key(name, "lib")
		if !strings.HasPrefix(name, "Next/") || key(name, "goroutines") != goroutines || lib == "ours" || lib == "mutex-and-clock" {
			continue
		}
		if v := s.median(name, "ns/op"); v < best {
			best, peer = v, lib
		}
	}
	if known(ours) && peer != "" {
		g.measured, g.met = fmt.Sprintf("%s ns, %s %s", nanos(ours), peer, nanos(best)), ours <= best
	}
	return g
}

func saturates(s *samples, name string) goal {
	g := goal{where: "At the ceiling", text: "at least 99% of the ceiling on at most 30% of a core",
		of: fmt.Sprintf("%s bits, goroutines %s", key(name, "bits"), key(name, "goroutines"))}
	if ceiling, core := s.median(name, "%ceiling"), s.median(name, "%core"); known(ceiling, core) {
		g.measured, g.met = fmt.Sprintf("%.1f%% on %s", ceiling, percent(core)), ceiling >= 99 && core <= 30
	}
	return g
}

// wakeUp is the time in nanoseconds that wake-ups may add to the longest wait in a queue in order
// of arrival: the timer is a millisecond late, and callers share the cores.
const wakeUp = 10e6

func waits(s *samples, name string) goal {
	g := goal{where: "The longest wait", text: fmt.Sprintf("the longest wait at most %s over the ideal", shortTime(wakeUp)),
		of: fmt.Sprintf("%s bits, callers %s", key(name, "bits"), key(name, "callers"))}
	if ideal, longest := s.median(name, "ideal-ns"), s.median(name, "longest-ns"); known(ideal, longest) {
		g.measured, g.met = fmt.Sprintf("%s, ideal %s", shortTime(longest), shortTime(ideal)), longest <= ideal+wakeUp
	}
	return g
}

// same is the maximum measured ratio of two forms that take the same time.
const same = 1.03

// textNoSlower returns the goal of a comparison of each form with bwmarrin's, measured in turns.
func textNoSlower(s *samples) goal {
	g := goal{text: fmt.Sprintf("text forms no slower than bwmarrin's of the same base, within %.0f%%", 100*(same-1)), where: "Ratios"}
	pairs := 0
	var slower []string
	for _, name := range s.names {
		form, do, isText := strings.Cut(key(name, "of"), ",")
		v := s.median(name, "ratio")
		if !strings.HasPrefix(name, "Ratio/") || !isText || do != "read" && do != "write" || !known(v) {
			continue
		}
		pairs++
		if v > same {
			slower = append(slower, fmt.Sprintf("%s %s %s", form, do, thousandths(v)))
		}
	}
	if pairs > 0 {
		g.met = len(slower) == 0
		g.measured = fmt.Sprintf("slower in %d of %d", len(slower), pairs)
		if !g.met {
			g.measured += ": " + strings.Join(slower, ", ")
		}
	}
	return g
}
