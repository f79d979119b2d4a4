package main

import (
	"fmt"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// field is some neighbouring bits of an ID.
type field struct {
	name string
	bits int
}

// fields returns the 64 bits of an ID from high to low, without fields that the
// layout does not have.
func fields(l snowflake.Layout) []field {
	worker, sequence := field{"worker", int(l.WorkerBits)}, field{"sequence", int(l.SequenceBits)}
	low := []field{worker, sequence}
	if l.WorkerLast {
		low = []field{sequence, worker}
	}
	high := []field{
		{"time", int(l.TimeBits)},
		{"clockseq", int(l.ClockSeqBits)},
		{"datacenter", int(l.DatacenterBits)},
	}
	used := append(high, low...)
	unused := 63
	for _, f := range used {
		unused -= f.bits
	}
	var present []field
	for _, f := range append([]field{{"sign", 1}, {"unused", unused}}, used...) {
		if f.bits > 0 {
			present = append(present, f)
		}
	}
	return present
}

// diagram draws the fields side by side. Above each field are the numbers of its
// highest and lowest bit.
func diagram(l snowflake.Layout) string {
	var places, edge, names, widths strings.Builder
	bit := 63
	for _, f := range fields(l) {
		high, low := fmt.Sprint(bit), ""
		if f.bits > 1 {
			low = fmt.Sprint(bit - f.bits + 1)
		}
		size := plural(f.bits, "bit")
		w := max(len(f.name), len(size), len(high)+1+len(low))
		fmt.Fprintf(&places, "  %s%*s", high, w-len(high)+1, low+" ")
		fmt.Fprintf(&edge, "+%s", strings.Repeat("-", w+2))
		fmt.Fprintf(&names, "| %-*s ", w, f.name)
		fmt.Fprintf(&widths, "| %-*s ", w, size)
		bit -= f.bits
	}
	return strings.TrimRight(places.String(), " ") + "\n" +
		edge.String() + "+\n" +
		names.String() + "|\n" +
		widths.String() + "|\n" +
		edge.String() + "+\n"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
