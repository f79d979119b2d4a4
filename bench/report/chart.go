package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chart is horizontal bars: a group for each library, a bar for each series as
// long as its median, and a thin line from the lowest to the highest.
type chart struct {
	title, series0, series1 string
	bars                    []bars
	limit                   float64 // longer bars are cut there
	format                  func(float64) string
}

type bars struct {
	name   string
	values [2][]float64 // of the rounds
}

func (g bars) median(series int) float64 { return quantile(g.values[series], 0.5) }

// The chart brings its own background, so that it can be read on any page.
const style = `<style>
.card { fill: #ffffff; stroke: #d0d7de } .text { fill: #24292f } .soft { fill: #57606a }
.a { fill: #8c959f } .b { fill: #d0d7de; stroke: #57606a } .line { stroke: #24292f } .tip { fill: #24292f }
.ours .a { fill: #54aeff } .ours .b { fill: #b6dcff; stroke: #0969da }
@media (prefers-color-scheme: dark) {
.card { fill: #161b22; stroke: #30363d } .text { fill: #e6edf3 } .soft { fill: #9da7b3 }
.a { fill: #6e7681 } .b { fill: #30363d; stroke: #8b949e } .line { stroke: #ffffff } .tip { fill: #ffffff }
.ours .a { fill: #1f6feb } .ours .b { fill: #12345c; stroke: #58a6ff }
}
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
.title { font-size: 16px; font-weight: 600 } .ours text { font-weight: 600 }
</style>`

const (
	chartWidth = 760
	barsLeft   = 170
	barsWidth  = 500
	groupHigh  = 38
	chartTop   = 78
)

// svg draws the chart.
func (c chart) svg() string {
	longest := 0.0
	for _, g := range c.bars {
		for j := range g.values {
			if v := g.median(j); v > longest {
				longest = v
			}
		}
	}
	if c.limit > 0 {
		longest = min(longest, c.limit)
	}
	height := chartTop + groupHigh*len(c.bars) + 30
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n%s\n", html.EscapeString(c.title), style)
	fmt.Fprintf(&b, `<rect class="card" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", chartWidth-1, height-1)
	fmt.Fprintf(&b, `<text class="text title" x="20" y="32">%s</text>`+"\n", html.EscapeString(c.title))
	fmt.Fprintf(&b, `<text class="soft" x="20" y="%d">blue: ours; thin line: lowest to highest; arrow: the bar is longer than the chart</text>`+"\n", height-14)
	x := 20
	for i, series := range []string{c.series0, c.series1} {
		fmt.Fprintf(&b, `<rect class="%c" x="%d" y="47" width="11" height="11" rx="2"/><g class="ours"><rect class="%c" x="%d" y="47" width="11" height="11" rx="2"/></g><text class="soft" x="%d" y="57">%s</text>`+"\n",
			'a'+i, x, 'a'+i, x+14, x+31, html.EscapeString(series))
		x += 46 + 13*len(series)/2
	}
	for i, g := range c.bars {
		y := chartTop + groupHigh*i
		class := ""
		if g.name == "ours" {
			class = ` class="ours"`
		}
		fmt.Fprintf(&b, `<g%s><text class="text" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", class, barsLeft-12, y+20, html.EscapeString(g.name))
		for j := range g.values {
			v := g.median(j)
			if math.IsNaN(v) {
				continue
			}
			width := func(v float64) float64 { return max(2, barsWidth*min(v/longest, 1)) }
			long, low, high := width(v), width(quantile(g.values[j], 0)), width(quantile(g.values[j], 1))
			text := c.format(v)
			fmt.Fprintf(&b, `<rect class="%c" x="%d" y="%d" width="%.1f" height="13" rx="2"/><path class="line" d="M%.1f %.1fH%.1f"/><text class="soft" x="%.1f" y="%d">%s</text>`+"\n",
				'a'+j, barsLeft, y+1+15*j, long, barsLeft+low, float64(y)+7.5+float64(15*j), barsLeft+high,
				barsLeft+max(long, high)+7, y+12+15*j, text)
			if quantile(g.values[j], 1) > longest {
				fmt.Fprintf(&b, `<path class="tip" d="M%.1f %.1fl-7 -4v8z"/>`+"\n", barsLeft+high, float64(y)+7.5+float64(15*j))
			}
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// nextChart shows what an ID costs.
func nextChart(s *samples) string {
	c := chart{title: "Nanoseconds an ID (less is better)", series0: "1 goroutine", series1: "64 goroutines", format: nanos}
	for _, name := range s.names {
		if strings.HasPrefix(name, "Next/") && key(name, "goroutines") == "1" {
			lib := key(name, "lib")
			if lib == "floor" {
				lib = "floor: lock and clock"
			}
			many := strings.Replace(name, "goroutines=1", "goroutines=64", 1)
			c.bars = append(c.bars, bars{lib, [2][]float64{s.values[name]["ns/op"], s.values[many]["ns/op"]}})
		}
	}
	slices.SortStableFunc(c.bars, func(x, y bars) int { return cmp.Compare(x.median(0), y.median(0)) })
	return c.svg()
}

// saturatedChart shows how much of the ceiling comes, and what that costs.
func saturatedChart(s *samples) string {
	c := chart{
		title:   "64 goroutines at a ceiling of 4,096 IDs a millisecond",
		series0: "share of the ceiling (more is better, up to 100%)", series1: "share of a core (less is better)",
		format: percent, limit: 125,
	}
	for _, name := range s.names {
		if strings.HasPrefix(name, "Saturated/bits=12/") && key(name, "goroutines") == "64" {
			c.bars = append(c.bars, bars{key(name, "lib"), [2][]float64{s.values[name]["%ceiling"], s.values[name]["%core"]}})
		}
	}
	return c.svg()
}
