package page

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// reader reads a layout as --layout of cmd/snowflake spells it. If the command refuses the layout, it returns what the
// command says.
type reader func(t *testing.T, spelling string) (l snowflake.Layout, says string)

// command returns how cmd/snowflake reads layouts: the package that it reads them with, and in the full
// run the program.
func command(t *testing.T) reader {
	t.Helper()
	if !depth.Full() {
		return parse
	}
	path := t.TempDir() + "/snowflake.exe"
	out, err := exec.Command("go", "build", "-o", path, "github.com/seed-5394e6b1/snowflake/cmd/snowflake").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return func(t *testing.T, spelling string) (l snowflake.Layout, says string) {
		t.Helper()
		cmd := exec.Command(path, "layout", "--json", spelling)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return l, stderr.String()
		}
		require.NoError(t, json.Unmarshal(out, &l))
		return l, ""
	}
}

func parse(_ *testing.T, spelling string) (snowflake.Layout, string) {
	l, err := texts.Layout(spelling)
	if err != nil {
		return snowflake.Layout{}, err.Error()
	}
	return l, ""
}

// valid returns random layouts that are valid, and all known ones.
func valid(r *rand.Rand, n int) (all []snowflake.Layout) {
	for _, k := range layouts.All() {
		all = append(all, k.Layout)
	}
	for len(all) < n {
		if l := randomLayout(r); l.Validate() == nil {
			all = append(all, l)
		}
	}
	return all
}

func fieldsOfAll(all []snowflake.Layout) (f []fields) {
	for _, l := range all {
		f = append(f, fieldsOf(l))
	}
	return f
}

// If a user copies the page's flags to the command, the command reads the same layout.
func TestCommandReadsTheSpelling(t *testing.T) {
	read := command(t)
	all := valid(rand.New(rand.NewPCG(7, 8)), depth.Of(500, 2000))
	var flags []string
	underNode(t, fieldsOfAll(all), layoutOf+`return input.map((l) => design.flags(layoutOf(l)));`, &flags)
	for i, l := range all {
		text, ok := strings.CutPrefix(flags[i], "--layout ")
		require.True(t, ok, flags[i])
		got, says := read(t, text)
		require.Empty(t, says, flags[i])
		require.Equal(t, l, got, flags[i])
	}
}

// The literal of Go is the layout, and what the form shows of a layout is read
// back as the same.
func TestLiteralAndTextsAreTheLayout(t *testing.T) {
	all := valid(rand.New(rand.NewPCG(9, 10)), depth.Of(1000, 50_000))
	var got []struct {
		Literal string
		Again   bool
	}
	underNode(t, fieldsOfAll(all), layoutOf+`return input.map((f) => {
		const l = layoutOf(f), again = design.read(design.texts(l)).layout;
		return { Literal: design.goLiteral(l), Again: Object.keys(l).every((k) => again[k] === l[k]) };
	});`, &got)
	for i, l := range all {
		require.Equal(t, l, evaluate(t, got[i].Literal), got[i].Literal)
		require.True(t, got[i].Again, got[i].Literal)
	}
}

// evaluate returns the value of a literal.
func evaluate(t *testing.T, literal string) (l snowflake.Layout) {
	t.Helper()
	e, err := parser.ParseExpr(literal)
	require.NoError(t, err, literal)
	bits := map[string]*uint8{"TimeBits": &l.TimeBits, "ClockSeqBits": &l.ClockSeqBits, "DatacenterBits": &l.DatacenterBits,
		"WorkerBits": &l.WorkerBits, "SequenceBits": &l.SequenceBits}
	for _, elt := range e.(*ast.CompositeLit).Elts {
		kv := elt.(*ast.KeyValueExpr)
		switch name := kv.Key.(*ast.Ident).Name; name {
		case "Epoch":
			l.Epoch = snowflake.Epoch(number(t, kv.Value))
		case "Unit":
			l.Unit = time.Duration(number(t, kv.Value))
		case "WorkerLast":
			l.WorkerLast = kv.Value.(*ast.Ident).Name == "true"
		default:
			*bits[name] = uint8(number(t, kv.Value))
		}
	}
	return l
}

func number(t *testing.T, e ast.Expr) int64 {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 10, 64)
		require.NoError(t, err)
		return n
	case *ast.UnaryExpr:
		require.Equal(t, token.SUB, e.Op)
		return -number(t, e.X)
	case *ast.BinaryExpr:
		require.Equal(t, token.MUL, e.Op)
		return number(t, e.X) * number(t, e.Y)
	case *ast.SelectorExpr:
		unit, ok := map[string]time.Duration{"Hour": time.Hour, "Minute": time.Minute, "Second": time.Second,
			"Millisecond": time.Millisecond, "Microsecond": time.Microsecond, "Nanosecond": 1}[e.Sel.Name]
		require.True(t, ok, e.Sel.Name)
		return int64(unit)
	}
	t.Fatalf("%T in a literal", e)
	return 0
}

// The form reads epochs and ticks as the command does. If the command refuses a text, so does the form, in the
// same words.
func TestEpochsAndTicksAreReadAsTheCommandDoes(t *testing.T) {
	read := command(t)
	type texts struct {
		Epoch          string `json:"epoch"`
		Unit           string `json:"unit"`
		TimeBits       string `json:"timeBits"`
		ClockSeqBits   string `json:"clockSeqBits"`
		DatacenterBits string `json:"datacenterBits"`
		WorkerBits     string `json:"workerBits"`
		SequenceBits   string `json:"sequenceBits"`
		WorkerLast     bool   `json:"workerLast"`
	}
	var questions []texts
	ask := func(epoch, unit string) {
		questions = append(questions, texts{epoch, unit, "30", "1", "0", "8", "9", false})
	}
	for _, epoch := range []string{"2026-01-31", "2024-02-29", "2023-02-29", "2100-02-29", "2026-13-01", "2026-00-01", "2026-01-00", "2026-04-31", "0", "-5", "+7", "2026", "02026", "-2026", "+2026",
		"1767225600000", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "2026-01-31T15:04:05", "2026-01-31 15:04:05",
		"2026-01-31T15:04:05Z", "2026-01-31T15:04:05.5Z", "2026-01-31T15:04:05.1234Z", "2026-01-31T15:04:05.123000Z", "2026-01-31T15:04:05+01:00",
		"2026-01-31T15:04:05-05:30", "2026-01-31 15:04:05Z", "2026-01-31T24:00:00Z", "2026-01-31T15:60:00Z", "2026-01-31T15:04:60Z", "0001-01-01", "0099-12-31",
		"9999-12-31T23:59:59.999Z", "10000-01-01", "yesterday", "2026-01-31T15:04", "1e3", "1.5", "<b>x</b>"} {
		ask(epoch, "1ms")
	}
	for _, unit := range []string{"1ms", "10ms", "1s", "1.5s", ".5s", "1.s", "1h30m", "1us", "1µs", "1μs", "100ns", "1d", "", "ms", "5", "0", "-1ms", "+1ms", "1 ms",
		"1h1h", "2540400h", "999999999h", "0s", "1ms1us", "1.25ms", "<img>", "0.0000001s"} {
		ask("2026-01-01", unit)
	}
	var got []struct {
		Layout *fields
		Error  string
	}
	underNode(t, questions, `return input.map((texts) => { const { layout, error } = design.read(texts); return { Layout: layout, Error: error }; });`, &got)
	for i, q := range questions {
		want, says := read(t, "30/1/8/9@"+q.Epoch+","+q.Unit)
		if says == "" {
			require.NotNil(t, got[i].Layout, "%+v: %s", q, got[i].Error)
			require.Equal(t, fieldsOf(want), *got[i].Layout, "%+v", q)
		} else {
			require.Nil(t, got[i].Layout, "%+v: %s", q, says)
			require.Contains(t, says, got[i].Error, "%+v", q)
		}
	}
}

// If a link has a very long tick, the page does not stand still while it reads the tick.
func TestLongTickIsRefused(t *testing.T) {
	var says string
	underNode(t, nil, `
		const texts = design.texts(snowflake.layouts.default);
		return design.read({ ...texts, unit: "9".repeat(2_000_000) }).error;`, &says)
	require.Contains(t, says, "is not a tick such as 10ms")
}
