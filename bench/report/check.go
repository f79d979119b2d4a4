package main

import (
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
var checked = []struct {
	name      string
	quantile  float64 // of the rounds; a low one where whatever else runs makes it worse
	tolerance float64 // by how much it may get worse
}{
	{"of=NextID/over=floor", 0.5, 0.15},
	{"of=NextID/over=bwmarrin", 0.5, 0.15},
	{"of=NextID,leased/over=NextID", 0.5, 0.15},
	{"of=Fill,16/over=floor", 0.5, 0.15},
	{"of=Fill/over=loop", 0.5, 1.5}, // three instructions an ID: where in memory the linker puts them can double it
	{"of=Decode/over=bwmarrin", 0.5, 0.15},
	{"of=Base32/over=strconv", 0.5, 0.15},
	{"of=MarshalText/over=strconv", 0.5, 0.15},
	{"of=ceiling/over=saturated", 0.25, 0.15},
	{"of=saturated-cpu/over=floor-cpu", 0.25, 0.6}, // it is coarse, but a wait that spins takes three times as much
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
	var names []string
	for _, c := range checked {
		names = append(names, c.name)
	}
	s := newSamples()
	for range checkTries {
		if err := sample(ctx, s, bin, names); err != nil {
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
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// checkBaseline returns errWorse where a ratio is worse than the baseline.
func checkBaseline(ctx context.Context, bin, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var base baseline
	if err := json.Unmarshal(text, &base); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return decide(base, func(s *samples, names []string) error { return sample(ctx, s, bin, names) })
}

var errWorse = errors.New("worse than bench/baseline.json; where that is meant, go run ./bench/report -update")

// decide measures the ratios, and those that are worse than the baseline again,
// together with what was measured before. It returns errWorse where one stays so.
func decide(base baseline, sample func(*samples, []string) error) error {
	s := newSamples()
	left := checked
	for try := 1; len(left) > 0 && try <= checkTries; try++ {
		var names []string
		for _, c := range left {
			names = append(names, c.name)
		}
		if err := sample(s, names); err != nil {
			return err
		}
		worse := left[:0:0]
		for _, c := range left {
			old, ok := base.Ratios[c.name]
			if !ok {
				return fmt.Errorf("the baseline does not have %q: go run ./bench/report -update", c.name)
			}
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
