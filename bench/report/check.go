package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
)

// checked are the benchmarks that the regression check is made of. All report a
// ratio: of what we cost over what something else does, in turns, so that it
// holds on another machine and on a busy one. Less is better.
var checked = []check{
	{name: "of=NextID/over=floor", quantile: 0.5, tolerance: 0.15},
	{name: "of=NextID/over=bwmarrin", quantile: 0.5, tolerance: 0.15},
	{name: "of=NextID,leased/over=NextID", quantile: 0.5, tolerance: 0.15},
	{name: "of=Fill,16/over=floor", quantile: 0.25, tolerance: 0.5}, // has two modes, 0.08 and 0.11
	{name: "of=Fill/over=loop", quantile: 0.25, tolerance: 1},       // by where the linker puts it, 0.6 to 1.25
	{name: "of=Decode/over=floor", quantile: 0.5, tolerance: 0.15},
	{name: "of=Base32/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=MarshalText/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=Base58/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=ParseID/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=ceiling/over=saturated", quantile: 0.1, tolerance: 0.03},
	{name: "of=ceiling/over=saturated,64", quantile: 0.1, tolerance: 0.03},
	{name: "of=saturated-cpu/over=floor-cpu", quantile: 0.25, tolerance: 0.25, cpu: true},
	{name: "of=saturated-cpu,64/over=floor-cpu", quantile: 0.1, tolerance: 1, cpu: true},
}

type check struct {
	name      string
	quantile  float64 // of the rounds; a low one where whatever else runs makes it worse
	tolerance float64 // by how much it may get worse
	cpu       bool    // it needs the time of the processor, which is known on Unix only
}

// measurable returns those of checked that can be measured here.
func measurable(cpuKnown bool) []check {
	var can []check
	for _, c := range checked {
		if c.cpu && !cpuKnown {
			fmt.Printf("%-34s skipped: the time of the processor is not known here\n", c.name)
			continue
		}
		can = append(can, c)
	}
	return can
}

func namesOf(checks []check) []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

const (
	checkRounds = 12
	checkPairs  = "150x"
	checkTries  = 4 // of checkRounds each, as long as a ratio is worse
)

// baseline is what the ratios were, and where: ratios hold on other processors,
// but not to the percent.
type baseline struct {
	Processor string             `json:"processor"`
	Go        string             `json:"go"`
	Ratios    map[string]float64 `json:"ratios"`
}

// elsewhere is how many times the tolerance is where the baseline is another
// processor's, or another version of Go's.
const elsewhere = 3

// sample runs the named ratios, round after round.
func sample(ctx context.Context, s *samples, bin string, names []string) error {
	for range checkRounds {
		for _, name := range names {
			if err := s.run(ctx, bin, exactly("Ratio/"+name), checkPairs); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateBaseline writes what the ratios are now.
func updateBaseline(ctx context.Context, bin, path string) error {
	checks := measurable(cpuKnown)
	s := newSamples()
	for range checkTries {
		if err := sample(ctx, s, bin, namesOf(checks)); err != nil {
			return err
		}
	}
	base := baseline{Processor: s.cpu, Go: runtime.Version(), Ratios: map[string]float64{}}
	for _, c := range checks {
		v := quantile(s.values["Ratio/"+c.name]["ratio"], c.quantile)
		if math.IsNaN(v) {
			return fmt.Errorf("%s was not measured", c.name)
		}
		base.Ratios[c.name] = v
		fmt.Printf("%-34s %8.4f\n", c.name, v)
	}
	text, err := json.MarshalIndent(base, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// readBaseline reads a baseline that has all of checks, and nothing that this
// program does not know.
func readBaseline(path string, checks []check) (base baseline, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return base, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&base); err != nil {
		return base, fmt.Errorf("%s: %w; go run ./bench/report -update writes it anew", path, err)
	}
	for _, c := range checks {
		if base.Ratios[c.name] <= 0 {
			return base, fmt.Errorf("%s does not have %q: go run ./bench/report -update", path, c.name)
		}
	}
	return base, nil
}

// checkBaseline returns errWorse where a ratio is worse than the baseline.
func checkBaseline(ctx context.Context, bin string, base baseline, checks []check) error {
	return decide(base, checks, func(s *samples, names []string) error { return sample(ctx, s, bin, names) })
}

var errWorse = errors.New("worse than bench/baseline.json; where that is meant, go run ./bench/report -update")

// decide measures the ratios, and those that are worse than the baseline again,
// together with what was measured before. It returns errWorse where one stays so.
func decide(base baseline, left []check, sample func(*samples, []string) error) error {
	s := newSamples()
	for try := 1; len(left) > 0 && try <= checkTries; try++ {
		if err := sample(s, namesOf(left)); err != nil {
			return err
		}
		worse := left[:0:0]
		for _, c := range left {
			old := base.Ratios[c.name]
			v, verdict := quantile(s.values["Ratio/"+c.name]["ratio"], c.quantile), "ok"
			if math.IsNaN(v) {
				return fmt.Errorf("%s was not measured", c.name)
			}
			tolerance := c.tolerance
			if base.Processor != s.cpu || base.Go != runtime.Version() {
				tolerance *= elsewhere
			}
			if v > old*(1+tolerance) {
				worse, verdict = append(worse, c), "worse"
			}
			fmt.Printf("%-34s %8.4f, baseline %8.4f, %+6.1f%%  %s\n", c.name, v, old, 100*(v/old-1), verdict)
		}
		left = worse
	}
	if len(left) > 0 {
		return errWorse
	}
	return nil
}
