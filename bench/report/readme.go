package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// What stands between the two in the README is written by this program.
const (
	summaryBegin = "<!-- written by go run ./bench/report -->\n"
	summaryEnd   = "<!-- until here -->\n"
)

// replaceSummary puts a table into the README.
func replaceSummary(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), summaryBegin)
	_, after, ended := strings.Cut(rest, summaryEnd)
	if !ok || !ended {
		return fmt.Errorf("%s has no place for the figures, between %q and %q", path, summaryBegin, summaryEnd)
	}
	return os.WriteFile(path, []byte(before+summaryBegin+table+summaryEnd+after), 0o644)
}

// summary is the README's table.
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
		{"`NextID`, where no tick is ever spent, over Lock, `time.Since` and Unlock: the floor", figure(hundredths, "Ratio/of=NextID/over=floor", "ratio")},
		{"the same under a lease, over that", figure(hundredths, "Ratio/of=NextID,leased/over=NextID", "ratio")},
		{"`NextID`, default layout, saturated by 1 goroutine", saturated("1")},
		{"by 64 goroutines", saturated("64")},
		{"`Fill`, where no tick is ever spent", figure(nanos, "Fill/lib=ours", "ns/op") + " ns an ID"},
		{"100,000 IDs at once with `BorrowAhead`", figure(millis, "Burst/lib=ours/way=Fill,BorrowAhead", "ns/op") + " ms"},
		{"without it: 24 ticks", figure(millis, "Burst/lib=ours/way=Fill", "ns/op") + " ms"},
		{"`Decode`", figure(nanos, "Decode/lib=ours/call=Decode", "ns/op") + " ns"},
		{"a function that does nothing but return a `Parts`", figure(nanos, "Decode/lib=none/call=Parts", "ns/op") + " ns"},
		{"a generator", figure(count, "Memory/lib=ours", "B/generator") + " bytes, no goroutine"},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	return b.String()
}

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }
