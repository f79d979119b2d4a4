package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// comparison is the table that a reader decides by: a row for each library.
func comparison(s *samples) string {
	columns := []struct {
		title, bench, key, value string
		units                    []unit
	}{
		{"ns an ID, 1 goroutine", "Next", "goroutines", "1", []unit{{name: "ns/op", format: nanos}}},
		{"64 goroutines", "Next", "goroutines", "64", []unit{{name: "ns/op", format: nanos}}},
		{"of the ceiling / of a core, 12 bits, 64 goroutines", "Saturated/bits=12", "goroutines", "64", []unit{{name: "%ceiling", format: percent}, {name: "%core", format: percent}}},
		{"longest wait of 1,000 callers, 12 bits", "Wait/bits=12", "callers", "1000", []unit{{name: "longest-ns", format: shortTime}}},
	}
	var b strings.Builder
	b.WriteString("| library |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", 1+len(columns)))
	var libs []string
	for _, name := range s.names {
		for _, c := range columns {
			if lib := key(name, "lib"); strings.HasPrefix(name, c.bench+"/") && key(name, c.key) == c.value && !slices.Contains(libs, lib) {
				libs = append(libs, lib)
			}
		}
	}
	for _, lib := range libs {
		fmt.Fprintf(&b, "| %s |", lib)
		for _, c := range columns {
			cell := subject{units: c.units}.cell(s, fmt.Sprintf("%s/lib=%s/%s=%s", c.bench, lib, c.key, c.value))
			fmt.Fprintf(&b, " %s |", cmp.Or(cell, "–"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// summary is the table of the figures that most readers look for.
func summary(s *samples) string {
	figure := func(format func(float64) string, name, of string) string {
		return cmp.Or(subject{units: []unit{{name: of, format: format, spread: true}}}.cell(s, name), "–")
	}
	saturated := func(goroutines string) string {
		name := "Saturated/bits=12/lib=ours/goroutines=" + goroutines
		return fmt.Sprintf("%s of 4,096,000 a second, on %s of a core", figure(percent, name, "%ceiling"), figure(percent, name, "%core"))
	}
	var b strings.Builder
	b.WriteString("| | median (lowest–highest) |\n|---|---|\n")
	for _, row := range [][2]string{
		{"`NextID`, if no tick runs out of IDs, over the floor (Lock, `time.Since` and Unlock)", figure(hundredths, "Ratio/of=NextID/over=floor", "ratio")},
		{"the same with a lease, over `NextID` without a lease", figure(hundredths, "Ratio/of=NextID,leased/over=NextID", "ratio")},
		{"`NextID`, default layout, saturated by 1 goroutine", saturated("1")},
		{"by 64 goroutines", saturated("64")},
		{"`Fill`, if no tick runs out of IDs", figure(nanos, "Fill/lib=ours", "ns/op") + " ns an ID"},
		{"100,000 IDs at once with `BorrowAhead`", figure(millis, "Burst/lib=ours/way=Fill,BorrowAhead", "ns/op") + " ms"},
		{"without it: 24 ticks", figure(millis, "Burst/lib=ours/way=Fill", "ns/op") + " ms"},
		{"`Decode`", figure(nanos, "Decode/lib=ours/call=Decode", "ns/op") + " ns"},
		{"a function that does nothing but return a `Parts`", figure(nanos, "Decode/lib=none/call=Parts", "ns/op") + " ns"},
		{"a generator", figure(count, "Memory/lib=ours", "B/generator") + " bytes, " + median(s, count, "Memory/lib=ours", "goroutines/generator") + " goroutines"},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	return b.String()
}

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }

// median is a figure without what it varied by.
func median(s *samples, format func(float64) string, name, of string) string {
	return cmp.Or(subject{units: []unit{{name: of, format: format}}}.cell(s, name), "–")
}
