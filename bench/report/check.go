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

// checked has the benchmarks of the regression check. All report a ratio of two costs, measured in
// turns, so that it hardly depends on the machine and its load. Less is better. The last two need
// the processor time, which is known only on Unix. With the ceiling, they catch a wait that spins:
// if each sleep began with 100 µs of spinning, the processor time would be 11 to 16% more with one
// goroutine, and two to four times as much with 64.
//
// NextID over a mutex and a clock varies by up to 10% from hour to hour on one machine, and the
// processor does some added work while it reads the clock: only a loss of about 30% is sure to show
// there. Decode, and the parsers of base 32 and 58, over bwmarrin's are not checked, because they
// depend on the addresses that the linker gives to unchanged code.
var checked = []check{
	{name: "of=NextID/over=mutex-and-clock", quantile: 0.5, tolerance: 0.15},
	{name: "of=NextID/over=bwmarrin", quantile: 0.5, tolerance: 0.15},
	{name: "of=NextID,leased/over=NextID", quantile: 0.5, tolerance: 0.15},
	{name: "of=Fill,16/over=mutex-and-clock", quantile: 0.25, tolerance: 0.5}, // has two modes, 0.08 and 0.11
	{name: "of=Fill/over=loop", quantile: 0.25, tolerance: 1},                 // 0.6 to 1.25, by code layout
	{name: "of=Decode/over=mutex-and-clock", quantile: 0.5, tolerance: 0.15},
	{name: "of=Base32/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=MarshalText/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=Base58/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=ParseID/over=strconv", quantile: 0.5, tolerance: 0.15},
	{name: "of=ceiling/over=saturated", quantile: 0.1, tolerance: 0.03},
	{name: "of=ceiling/over=saturated,64", quantile: 0.1, tolerance: 0.03},
	{name: "of=saturated-cpu/over=mutex-and-clock-cpu", quantile: 0.25, tolerance: 0.25},
	{name: "of=saturated-cpu,64/over=mutex-and-clock-cpu", quantile: 0.1, tolerance: 1},
}

type check struct {
	name      string
	quantile  float64 // of the rounds; low if the machine's load makes the ratio worse
	tolerance float64 // the largest relative increase
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
	checkTries  = 4 // while a ratio is worse; each try has checkRounds rounds
)

const baselineFile = "baseline.json"

// baseline has earlier ratios, with the processor and the Go version of the measurement. With other
// processors, ratios are similar but not equal.
type baseline struct {
	Processor string             `json:"processor"`
	Go        string             `json:"go"`
	Ratios    map[string]float64 `json:"ratios"`
}

// elsewhere is a factor for the tolerance if the baseline is of another processor or version of Go.
// The largest difference seen between two processors is 51%: Decode takes 0.35 or 0.53 of the time
// of a mutex and a clock, most of which is a reading of the clock.
const elsewhere = 5

// sample measures the named ratios in all rounds.
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

// updateBaseline measures the ratios, and writes them as the baseline.
func updateBaseline(ctx context.Context, bin string) error {
	s := newSamples()
	for range checkTries {
		if err := sample(ctx, s, bin, namesOf(checked)); err != nil {
			return err
		}
	}
	base := baseline{Processor: s.cpu, Go: runtime.Version(), Ratios: map[string]float64{}}
	for _, c := range checked {
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
	return os.WriteFile(baselineFile, append(text, '\n'), 0o644)
}

// readBaseline reads a baseline. It returns an error if a ratio of checks is missing.
func readBaseline(path string, checks []check) (base baseline, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return base, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&base); err != nil {
		return base, fmt.Errorf("%s: %w; go run ./bench/report -update rewrites it", path, err)
	}
	for _, c := range checks {
		if base.Ratios[c.name] <= 0 {
			return base, fmt.Errorf("%s does not have %q: go run ./bench/report -update", path, c.name)
		}
	}
	return base, nil
}

// checkBaseline returns errWorse if a ratio is worse than the baseline.
func checkBaseline(ctx context.Context, bin string) error {
	base, err := readBaseline(baselineFile, checked)
	if err != nil {
		return err
	}
	return decide(base, checked, func(s *samples, names []string) error { return sample(ctx, s, bin, names) })
}

var errWorse = errors.New("worse than bench/baseline.json; if this is intended, go run ./bench/report -update")

// decide measures the ratios. If some are worse than the baseline, it adds more measurements of
// these. If one stays worse, it returns errWorse.
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
