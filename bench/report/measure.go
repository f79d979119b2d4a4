package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// samples holds the values that the benchmarks reported in all rounds.
type samples struct {
	// names has the benchmarks in the order of the source, such as Next/lib=ours/goroutines=1.
	names []string

	values map[string]map[string][]float64 // by name and unit
	cpu    string                          // the processor's model, or ""
}

// numbers matches the lines of Linux's /proc/cpuinfo with the generation of a processor.
var numbers = regexp.MustCompile(`\ncpu family\s*: (\d+)\nmodel\s*: (\d+)\n`)

// processor returns a processor's model with its numbers, if info has them: virtual machines with
// different processors call them "AMD EPYC".
func processor(model, info string) string {
	if n := numbers.FindStringSubmatch(info); n != nil {
		return fmt.Sprintf("%s (family %s, model %s)", model, n[1], n[2])
	}
	return model
}

func newSamples() *samples {
	return &samples{values: map[string]map[string][]float64{}}
}

// gomaxprocs matches the suffix that package testing adds to a benchmark's name.
var gomaxprocs = regexp.MustCompile(`-\d+$`)

// add adds the output of a run. cpuinfo is the machine's /proc/cpuinfo.
func (s *samples) add(output, cpuinfo string) error {
	for line := range strings.Lines(output) {
		if model, ok := strings.CutPrefix(line, "cpu: "); ok {
			s.cpu = processor(strings.TrimSpace(model), cpuinfo)
		}
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(f[1]); err != nil || len(f)%2 != 0 {
			return fmt.Errorf("not a benchmark's result: %q", line)
		}
		name := gomaxprocs.ReplaceAllString(strings.TrimPrefix(f[0], "Benchmark"), "")
		if s.values[name] == nil {
			s.names = append(s.names, name)
			s.values[name] = map[string][]float64{}
		}
		for i := 2; i < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return fmt.Errorf("not a number: %q in %q", f[i], line)
			}
			s.values[name][f[i+1]] = append(s.values[name][f[i+1]], v)
		}
	}
	return nil
}

// quantile returns the q-quantile of the values, or NaN if there are none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	at := q * float64(len(v)-1)
	low := int(at)
	if low+1 == len(v) {
		return v[low]
	}
	return v[low] + (at-float64(low))*(v[low+1]-v[low])
}

// median returns the median of a benchmark's values in a unit, or NaN.
func (s *samples) median(name, unit string) float64 {
	return quantile(s.values[name][unit], 0.5)
}

// measure runs every benchmark once a round, each in a new process and in a random order.
func measure(ctx context.Context, bin string, rounds int, benchtime time.Duration) (*samples, error) {
	found := newSamples()
	if err := found.run(ctx, bin, ".", "1x"); err != nil {
		return nil, err
	}
	s := newSamples()
	s.names = found.names
	for _, name := range s.names {
		s.values[name] = map[string][]float64{}
	}
	start := time.Now()
	for round := range rounds {
		order := slices.Clone(s.names)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, name := range order {
			if err := s.run(ctx, bin, exactly(name), timeFor(name, benchtime)); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %v\n", round+1, rounds, time.Since(start).Round(time.Second))
	}
	return s, nil
}

// timeFor returns the duration of a benchmark, which is longer if a part of it is a wait.
func timeFor(name string, benchtime time.Duration) string {
	switch bench, _, _ := strings.Cut(name, "/"); bench {
	case "Wait", "Deadlines":
		return "1x" // an operation takes a second or more
	case "Saturated":
		return (10 * benchtime).String() // after a warm-up of the same duration
	case "Cores":
		// An operation has two parts of more than 1 ms.
		return fmt.Sprint(max(1, benchtime.Milliseconds()/2), "x")
	case "Ratio":
		// An operation has two parts of 100 µs or more.
		return fmt.Sprint(max(1, benchtime.Microseconds()/500), "x")
	}
	return benchtime.String()
}

// exactly returns the pattern of -test.bench that matches one name.
func exactly(name string) string {
	parts := strings.Split("Benchmark"+name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// run runs the benchmarks that match the pattern, and adds their values.
func (s *samples) run(ctx context.Context, bin, pattern, benchtime string, args ...string) error {
	flags := []string{"-test.run", "^$", "-test.bench", pattern, "-test.benchtime", benchtime}
	cmd := exec.CommandContext(ctx, bin, append(flags, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("-test.bench %s: %w\n%s", pattern, err, out)
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // systems other than Linux do not have it
	return s.add(string(out), string(cpuinfo))
}
