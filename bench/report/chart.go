package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// style gives the chart its own background, so that it is readable on any page.
const style = `<style>
.card { fill: #ffffff; stroke: #d0d7de } .text { fill: #24292f } .soft { fill: #57606a }
.a { fill: #8c959f } .b { fill: #d0d7de } .ours .a { fill: #54aeff } .ours .b { fill: #b6dcff }
@media (prefers-color-scheme: dark) {
.card { fill: #161b22; stroke: #30363d } .text { fill: #e6edf3 } .soft { fill: #9da7b3 }
.a { fill: #6e7681 } .b { fill: #30363d } .ours .a { fill: #1f6feb } .ours .b { fill: #12345c }
}
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
.title { font-size: 16px; font-weight: 600 } .ours text { font-weight: 600 }
</style>`

// chart returns an SVG with two bars for each library, the median cost of an ID with 1 and with 64
// goroutines.
func chart(s *samples) string {
	type bars struct {
		lib    string
		values [2]float64
	}
	var all []bars
	longest := 0.0
	for _, name := range s.names {
		if strings.HasPrefix(name, "Next/") && key(name, "goroutines") == "1" {
			many := strings.Replace(name, "goroutines=1", "goroutines=64", 1)
			b := bars{key(name, "lib"), [2]float64{s.median(name, "ns/op"), s.median(many, "ns/op")}}
			for _, v := range b.values {
				if v > longest { // false if v is NaN
					longest = v
				}
			}
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(x, y bars) int { return cmp.Compare(x.values[0], y.values[0]) })
	var b strings.Builder
	height := 78 + 38*len(all)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 %d" width="760" height="%[1]d" role="img">
<title>Nanoseconds an ID</title>
%s
<rect class="card" x="0.5" y="0.5" width="759" height="%d" rx="8"/>
<text class="text title" x="20" y="32">Nanoseconds an ID (less is better)</text>
<rect class="a" x="20" y="47" width="11" height="11"/><text class="soft" x="37" y="57">1 goroutine</text>
<rect class="b" x="130" y="47" width="11" height="11"/><text class="soft" x="147" y="57">64 goroutines; blue: ours</text>
`, height, style, height-1)
	for i, lib := range all {
		y := 72 + 38*i
		fmt.Fprintf(&b, `<g class="%s"><text class="text" x="158" y="%d" text-anchor="end">%[1]s</text>`, html.EscapeString(lib.lib), y+20)
		for j, v := range lib.values {
			if !math.IsNaN(v) {
				long := max(2, 500*v/longest)
				fmt.Fprintf(&b, `<rect class="%c" x="170" y="%d" width="%.1f" height="13"/><text class="soft" x="%.1f" y="%d">%s</text>`,
					'a'+j, y+1+15*j, long, 177+long, y+12+15*j, nanos(v))
			}
		}
		b.WriteString("</g>\n")
	}
	return b.String() + "</svg>\n"
}
