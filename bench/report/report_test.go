package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const output = `goos: linux
cpu: A Model
BenchmarkNext/lib=ours/goroutines=1-2         	 5	        40.00 ns/op	       0 B/op	       0 allocs/op
BenchmarkNext/lib=ours/goroutines=64-2        	 5	        50.00 ns/op
BenchmarkNext/lib=mutex-and-clock/goroutines=1-2        	 5	        38.00 ns/op
BenchmarkNext/lib=google-uuid-v7/goroutines=1 	 5	        30.00 ns/op
BenchmarkNext/lib=google-uuid-v7/goroutines=64	 5	        49.00 ns/op
BenchmarkSaturated/bits=12/lib=ours/goroutines=64-2 	 1	        99.00 %ceiling	        21.00 %core	   4058708 ids/s
BenchmarkSaturated/bits=12/lib=yitter/goroutines=64-2 	 1	        250.00 %ceiling	        90.00 %core	   9058708 ids/s
PASS
`

func parsed(t *testing.T, outputs ...string) *samples {
	t.Helper()
	s := newSamples()
	for _, o := range outputs {
		require.NoError(t, s.add(o, ""))
	}
	return s
}

func TestAddReadsTheOutputOfBenchmarks(t *testing.T) {
	s := parsed(t, output, strings.ReplaceAll(output, "40.00 ns/op", "60.00 ns/op"))
	require.Equal(t, "A Model", s.cpu)
	assert.Len(t, s.names, 7)
	for _, want := range []struct {
		name, unit string
		median     float64
	}{
		{"Next/lib=ours/goroutines=1", "ns/op", 50},
		{"Next/lib=ours/goroutines=1", "allocs/op", 0},
		{"Next/lib=google-uuid-v7/goroutines=1", "ns/op", 30},
		{"Saturated/bits=12/lib=ours/goroutines=64", "%core", 21},
	} {
		if got := s.median(want.name, want.unit); got != want.median {
			t.Errorf("%s: %v %s, want %v", want.name, got, want.unit, want.median)
		}
	}
	if v := s.median("Next/lib=none", "ns/op"); !math.IsNaN(v) {
		t.Errorf("a benchmark that never ran took %v", v)
	}
}

func TestAddRefusesOtherOutput(t *testing.T) {
	for _, line := range []string{
		"BenchmarkX-2 5 forty ns/op\n",
		"BenchmarkX-2 5 40.0\n",
		"BenchmarkX-2 --- FAIL\n",
	} {
		assert.Error(t, newSamples().add(line, ""), "%q was taken", line)
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{40, 10, 30, 20}
	for q, want := range map[float64]float64{0: 10, 0.5: 25, 0.75: 32.5, 1: 40} {
		if got := quantile(v, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	assert.EqualValues(t, 40, v[0], "the values were sorted in place")
}

func TestExactlyMatchesOneName(t *testing.T) {
	parts := strings.Split(exactly("Burst/lib=ours/way=Fill,ample"), "/")
	for i, want := range []string{"BenchmarkBurst", "lib=ours", "way=Fill,ample"} {
		re := regexp.MustCompile(parts[i])
		if !re.MatchString(want) || re.MatchString(want+"x") || re.MatchString("x"+want) {
			t.Errorf("%s does not match %s alone", parts[i], want)
		}
	}
}

func subjectOf(bench string) subject {
	return subjects[slices.IndexFunc(subjects, func(s subject) bool { return s.bench == bench })]
}

func TestTable(t *testing.T) {
	table := subjectOf("Next").table(parsed(t, output))
	want := "ns an ID:\n\n| lib | goroutines 1 | goroutines 64 |\n|---|---|---|\n"
	require.True(t, strings.HasPrefix(table, want))
	require.Contains(t, table, "| ours | 40.0 (40.0–40.0) | 50.0 (50.0–50.0) |\n")
	assert.Contains(t, table, "| mutex-and-clock | 38.0 (38.0–38.0) |  |\n")
}

// A table may list the values of a key in one cell, and have one row for all libraries.
func TestTablesListValuesAndLibraries(t *testing.T) {
	s := parsed(t, `BenchmarkRatio/of=Fill/over=mutex-and-clock-2 9 0.5 ratio
BenchmarkRatio/of=Decode/over=mutex-and-clock-2 9 0.25 ratio
BenchmarkRatio/of=Fill/over=loop-2 9 2 ratio
BenchmarkMemory/lib=ours-2 1 256 B/generator 0 goroutines/generator 565 ns/generator
BenchmarkMemory/lib=sno-2 1 152 B/generator 0 goroutines/generator 343 ns/generator
`)
	all := tables(s, subjects)
	for name, want := range map[string]string{
		"Ratio":  "| over | ratio |\n|---|---|\n| mutex-and-clock | Fill 0.500 (0.500–0.500); Decode 0.250 (0.250–0.250) |\n| loop | Fill 2.00 (2.00–2.00) |\n",
		"Memory": "|  | ours | sno |\n|---|---|---|\n| bytes / goroutines / ns to make | 256 / 0 / 565 | 152 / 0 / 343 |\n",
	} {
		assert.Equal(t, want, all[name], "the table %s is\n%s", name, all[name])
	}
}

func TestComparisonHasARowForEachLibrary(t *testing.T) {
	table := comparison(parsed(t, output))
	for _, want := range []string{
		"| library | ns an ID, 1 goroutine | 64 goroutines | of the ceiling / of a core, 12 bits, 64 goroutines | longest wait of 1,000 callers, 12 bits |",
		"| ours | 40.0 | 50.0 | 99% / 21% | – |\n| mutex-and-clock | 38.0 | – | – | – |\n",
		"| yitter | – | – | 250% / 90% | – |\n",
	} {
		assert.Contains(t, table, want)
	}
}

// Each table has one place in the pages of its run, each place has a table, and the text between the
// places does not change.
func TestPagesHaveAPlaceForEachTable(t *testing.T) {
	s := parsed(t, output, serverOutput)
	libraries, server := tables(s, subjects), tables(s, served)
	libraries["libraries"], libraries["goals"], libraries["makes"] = comparison(s), "goals' table\n", "processors' table\n"
	libraries["machine"], server["server-machine"] = "machine's table\n", "machine's table\n"
	places, known := map[string]bool{}, map[string]bool{}
	for figures, all := range map[string]map[string]string{"../figures.txt": libraries, "../server/figures.txt": server} {
		dir := t.TempDir()
		var pages, texts []string
		for i, page := range []string{"../../docs/benchmarks.md", figures} {
			before, err := os.ReadFile(page)
			require.NoError(t, err)
			pages, texts = append(pages, filepath.Join(dir, filepath.Base(page))), append(texts, string(before))
			require.NoError(t, os.WriteFile(pages[i], before, 0o600))
			for _, m := range place.FindAllStringSubmatch(string(before), -1) {
				places[m[1]] = true
			}
		}
		require.NoError(t, writeTables(all, pages...))
		var after string
		for i, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			after += string(text)
			words := regexp.MustCompile(`(?s)-->\n.*?<!-- end`)
			assert.Equal(t, words.ReplaceAllString(texts[i], ""), words.ReplaceAllString(string(text), ""), "text outside the tables of %s changed", page)
		}
		for table, text := range all {
			before := "<!-- table " + table + " -->\n"
			assert.True(t, strings.Contains(after, before+text+"<!-- end -->\n") || strings.Contains(after, before+aligned(text)+"<!-- end -->\n"),
				"the table %s was not written", table)
			known[table] = true
		}
		all["other"] = ""
		assert.Error(t, writeTables(all, pages...), "%s has no place for a table, and nothing is said", figures)
	}
	assert.Equal(t, known, places, "places without a table")
}

// In plain text the columns are aligned, and each item of a list has a line.
func TestPlainTextIsAligned(t *testing.T) {
	assert.Equal(t, `ns:

lib    1         2
ours   write 40  50
       read 5
other  –
`, aligned("ns:\n\n"+markdown([]string{"lib", "1", "2"}, [][]string{{"ours", "write 40; read 5", "50"}, {"other", "–", ""}})))
}

// A page keeps the figures of all measured processors.
func TestTableOfProcessorsKeepsTheOthers(t *testing.T) {
	s := parsed(t, output+"BenchmarkRatio/of=NextID/over=bwmarrin-2 9 0.9 ratio\n")
	day := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	page := "<!-- table makes -->\n" + strings.Replace(makes("", s, day), "A Model", "Another", 1) + "<!-- end -->\n"
	both := makes(page, s, day)
	assert.Contains(t, both, "| A Model | 2026-11-29 | – | 0.900 | – | – | – | 50.0 ns, google-uuid-v7 49.0 | – |\n| Another |")
	page = "<!-- table makes -->\n" + both + "<!-- end -->\n"
	assert.Equal(t, both, makes(page, s, day), "a processor has one row")
}

func TestGoalsSayWhatIsMissed(t *testing.T) {
	table := goalsTable(goals(parsed(t, output)))
	for _, want := range []string{
		"| NextID no slower than the best peer | 64 goroutines: 50.0 ns, google-uuid-v7 49.0 | " +
			"no; not measured: 2 goroutines; 8 goroutines; 1000 goroutines | One ID |",
		"| at least 99% of the ceiling on at most 30% of a core | 12 bits, goroutines 64: 99.0% on 21% | yes |",
		"| Decode at most 2 ns | – | not measured |",
	} {
		assert.Contains(t, table, want)
	}
}

func TestChartIsXML(t *testing.T) {
	svg := chart(parsed(t, output))
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if first, ours := strings.Index(svg, ">google-uuid-v7<"), strings.Index(svg, ">ours<"); first < 0 || ours < first {
		t.Errorf("the bars are not there, in the order of their length:\n%s", svg)
	}
}

// The figures that meet a goal are not listed beside those that miss it.
func TestGoalsListWhatIsMissed(t *testing.T) {
	goals := []goal{{text: "g", of: "a", measured: "1", met: true, where: "T"}, {text: "g", of: "b", measured: "2"}}
	assert.Equal(t, []string{"g", "b: 2", "no, 1 of 2", "T"}, goalsRow(goals))
	assert.Equal(t, []string{"g", "a: 1; b: 2", "yes", "T"}, goalsRow([]goal{goals[0], {of: "b", measured: "2", met: true}}))
}

// decideOn runs decide with a baseline of 1 for all ratios. The first ratio has the given values,
// one for each try; all others are 1.
func decideOn(t *testing.T, processor string, tries ...float64) (n int, err error) {
	t.Helper()
	base := baseline{Processor: processor, Go: runtime.Version(), Ratios: map[string]float64{}}
	for _, c := range checked {
		base.Ratios[c.name] = 1
	}
	err = decide(base, checked, func(s *samples, names []string) error {
		for _, name := range names {
			v := 1.0
			if name == checked[0].name {
				v = tries[n]
			}
			if err := s.add(fmt.Sprintf("BenchmarkRatio/%s-2 9 %v ratio\n", name, v), ""); err != nil {
				return err
			}
		}
		n++
		return nil
	})
	return n, err
}

func TestProcessorNamesItsGeneration(t *testing.T) {
	const info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n"
	for text, want := range map[string]string{
		info:                                  "AMD EPYC (family 26, model 2)",
		"":                                    "AMD EPYC",
		"processor\t: 0\nBogoMIPS\t: 48.00\n": "AMD EPYC",
	} {
		if got := processor("AMD EPYC", text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name      string
		processor string
		ratios    []float64
		tries     int
		red       bool
	}{
		{"as it was", "", []float64{1}, 1, false},
		{"better", "", []float64{0.5}, 1, false},
		{"just within", "", []float64{1.149}, 1, false},
		{"a disturbed try", "", []float64{3, 1.02, 1.02}, 3, false},
		{"worse for good", "", []float64{1.2, 1.16, 1.2, 1.2}, checkTries, true},
		{"worse than elsewhere", "another", []float64{1.7}, 1, false},
		{"much worse than elsewhere", "another", []float64{1.8, 1.8, 1.8, 1.8}, checkTries, true},
	} {
		tries, err := decideOn(t, c.processor, c.ratios...)
		require.Equal(t, c.tries, tries, "%s: %d tries, %v", c.name, tries, err)
		assert.Equal(t, c.red, errors.Is(err, errWorse), "%s: %d tries, %v", c.name, tries, err)
	}
}

func TestDecideRefusesMissingMeasurements(t *testing.T) {
	nothing := func(*samples, []string) error { return nil }
	base := baseline{Ratios: map[string]float64{checked[0].name: 1}}
	err := decide(base, checked, nothing)
	require.Error(t, err)
	assert.NotErrorIs(t, err, errWorse)
}

func TestBaselineHasAllRatios(t *testing.T) {
	base, err := readBaseline(filepath.Join("..", "baseline.json"), checked)
	require.NoError(t, err)
	require.NotEmpty(t, base.Processor, "it is %+v", base)
	require.NotEmpty(t, base.Go, "it is %+v", base)
	assert.Len(t, base.Ratios, len(checked), "it is %+v", base)
}

func TestReadBaselineRefusesUnknownNames(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"ratios": {}}`,
		`{"` + checked[0].name + `": 1}`, // an older form
		`{"processor": "", "go": "", "ratios": {"` + checked[0].name + `": 0}}`,
	} {
		path := filepath.Join(t.TempDir(), "baseline.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := readBaseline(path, checked[:1])
		assert.Error(t, err, "%q was taken", text)
	}
}

func TestFiguresAreRoundedAndGrouped(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(4096000), "4,096,000"}, {count(96), "96"}, {nanos(0.0877), "0.088"}, {nanos(9.876), "9.88"}, {nanos(36.14), "36.1"}, {nanos(244.1), "244"},
		{shortTime(90), "90 ns"}, {shortTime(1408), "1.41 µs"}, {shortTime(19291277), "19.3 ms"}, {percent(1.53), "1.5%"},
		{timeFor("Saturated/x", time.Second), "10s"}, {timeFor("Ratio/x", 100*time.Millisecond), "200x"},
	} {
		assert.Equal(t, c.want, c.got)
	}
}

const serverOutput = `cpu: A Model
BenchmarkCall/call=http1/goroutines=8-2 	 9	 40000 ns/op	 25000 IDs/s
BenchmarkCall/call=grpc/goroutines=8-2 	 9	 50000 ns/op	 20000 IDs/s
BenchmarkCall/call=buffer/goroutines=8-2 	 9	 400 ns/op	 2500000 IDs/s
BenchmarkCall/call=redis/goroutines=8-2 	 9	 45000 ns/op	 22000 IDs/s
BenchmarkCall/call=postgres/goroutines=8-2 	 9	 20000 ns/op	 50000 IDs/s
BenchmarkBatch/call=http1/n=100/goroutines=8-2 	 9	 50000 ns/op	 2000000 IDs/s
BenchmarkBatch/call=redis/n=100/goroutines=8-2 	 9	 60000 ns/op	 1600000 IDs/s
BenchmarkHalf/call=none-2 	 9	 5000 calls/s	 40000 p50-ns	 900000 p99.9-ns
BenchmarkOverhead/access-log=false-2 	 9	 1.20 cpu-ratio	 1.10 rate-ratio	 24000 cpu-ns/request	 20000 cpu-ns/constant
BenchmarkOverhead/access-log=true-2 	 9	 1.40 cpu-ratio	 1.15 rate-ratio	 28000 cpu-ns/request	 20000 cpu-ns/constant
`
