//go:build unix

package database

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report writes the medians of the rounds, with the lowest and highest values.
func report(w io.Writer, s *server, pool int, own []table, results [][]result) {
	fmt.Fprintf(w, "\n### %s, buffer pool of %d MB\n\n", s.version, pool)
	fmt.Fprintf(w, "| key, and indexes besides that on customer | insert, s | CPU of the server, s | write out, s | log, MB | single rows, a second | 1%% by key, ms | by created_at, ms |\n|---|---|---|---|---|---|---|---|\n")
	for i, k := range own {
		singles := func(r result) float64 { return float64(*singlesFlag) / r.singles.Seconds() }
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", title(k),
			spread(results[i], "%.1f", func(r result) float64 { return r.insert.Seconds() }),
			spread(results[i], "%.1f", func(r result) float64 { return r.cpu.Seconds() }),
			spread(results[i], "%.1f", func(r result) float64 { return r.flush.Seconds() }),
			spread(results[i], "%.0f", func(r result) float64 { return float64(r.log) / 1e6 }),
			spread(results[i], "%.0f", singles),
			spread(results[i], "%.1f", func(r result) float64 { return ms(r.byKey) }),
			spread(results[i], "%.1f", func(r result) float64 { return ms(r.byColumn) }))
	}
	fmt.Fprintf(w, "\n| key, and indexes besides that on customer | rows, MB | primary key, MB | created_at, MB | customer, MB | all, MB |\n|---|---|---|---|---|---|\n")
	for i, k := range own {
		fmt.Fprintf(w, "| %s |", title(k))
		for _, part := range []string{theRows, theKey, byTime, byWhom} {
			fmt.Fprintf(w, " %s |", spread(results[i], "%.1f", func(r result) float64 { return mb(r.sizes[part]) }))
		}
		fmt.Fprintf(w, " %s |\n", spread(results[i], "%.1f", total))
	}
	fmt.Fprintln(w)
}

func title(k table) string {
	if k.index {
		return k.name + ", created_at"
	}
	return k.name
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

func total(r result) (sum float64) {
	for _, bytes := range r.sizes {
		sum += mb(bytes)
	}
	return sum
}

// spread returns the median and, if they differ, the lowest and highest values, or a dash if there
// are no values.
func spread(rounds []result, format string, value func(result) float64) string {
	var all []string
	var values []float64
	for _, r := range rounds {
		values = append(values, value(r))
	}
	slices.Sort(values)
	for _, v := range []float64{values[len(values)/2], values[0], values[len(values)-1]} {
		all = append(all, fmt.Sprintf(format, v))
	}
	switch {
	case values[len(values)-1] == 0:
		return "–"
	case all[1] == all[2]:
		return all[0]
	}
	return fmt.Sprintf("%s (%s–%s)", all[0], all[1], all[2])
}
