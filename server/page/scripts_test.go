package page

import (
	"go/constant"
	"go/token"
	"go/types"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/jstest"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// underNode runs code that can use the page's scripts except page.js.
func underNode(t *testing.T, input any, code string, output any) {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"server.js", "snowflake.js", "identify.js", "design.js"} {
		files[name] = get("GET", "/"+name, nil).Body.String()
	}
	jstest.Run(t, files, `
		import * as snowflake from "./snowflake.js";
		import * as identify from "./identify.js";
		import * as design from "./design.js";`, input, code, output)
}

// units are Go's names of units of time.
var units = strings.NewReplacer("time.Hour", "3600000000000", "time.Minute", "60000000000", "time.Second", "1000000000",
	"time.Millisecond", "1000000", "time.Microsecond", "1000", "time.Nanosecond", "1")

// evaluate returns the layout of a Go literal.
func evaluate(t *testing.T, literal string) (l snowflake.Layout) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+): +([^,]*),`).FindAllStringSubmatch(literal, -1) {
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, units.Replace(m[2]))
		require.NoError(t, err, literal)
		field := reflect.ValueOf(&l).Elem().FieldByName(m[1])
		field.Set(reflect.ValueOf(constant.Val(v.Value)).Convert(field.Type()))
	}
	return l
}

// The page's flags for the command, and its Go literal, mean the same layout. The texts with which
// the form and the command show a layout mean this layout.
func TestSpellingsMeanTheLayout(t *testing.T) {
	var all []snowflake.Layout
	for _, k := range layouts.All() {
		all = append(all, k.Layout)
	}
	for r := rand.New(rand.NewPCG(7, 8)); len(all) < depth.Of(1000, 50_000); {
		if l := jstest.RandomLayout(r); l.Validate() == nil {
			all = append(all, l)
		}
	}
	var questions []jstest.Layout
	for _, l := range all {
		questions = append(questions, jstest.LayoutOf(l))
	}
	var got []struct {
		Flags, Literal string
		Again          jstest.Layout
	}
	underNode(t, questions, `return input.map(layoutOf).map((l) =>
		({ Flags: design.flags(l), Literal: design.goLiteral(l), Again: design.read(design.texts(l)).layout }));`, &got)
	for i, l := range all {
		spelling, ok := strings.CutPrefix(got[i].Flags, "--layout ")
		require.True(t, ok, got[i].Flags)
		read, err := texts.Layout(spelling)
		require.NoError(t, err, got[i].Flags)
		require.Equal(t, l, read, got[i].Flags)
		again, err := snowflake.ParseLayout(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again, "the command spells it %v", l)
		require.Equal(t, l, evaluate(t, got[i].Literal), got[i].Literal)
		require.Equal(t, questions[i], got[i].Again, got[i].Literal)
	}
}

// The form reads epochs and ticks like the command, and refuses texts with the same errors.
func TestEpochsAndTicksAreReadAsTheCommandDoes(t *testing.T) {
	var questions [][2]string
	for _, epoch := range []string{"2026-01-31", "2024-02-29", "2023-02-29", "2100-02-29", "2026-13-01", "2026-00-01",
		"2026-01-00", "2026-04-31", "0", "-5", "+7", "2026", "02026", "-2026", "+2026",
		"1767225600000", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "2026-01-31T15:04:05", "2026-01-31 15:04:05",
		"2026-01-31T15:04:05Z", "2026-01-31T15:04:05.5Z", "2026-01-31T15:04:05.1234Z", "2026-01-31T15:04:05.123000Z", "2026-01-31T15:04:05+01:00",
		"2026-01-31T15:04:05-05:30", "2026-01-31 15:04:05Z", "2026-01-31T24:00:00Z", "2026-01-31T15:60:00Z", "2026-01-31T15:04:60Z", "0001-01-01", "0099-12-31",
		"9999-12-31T23:59:59.999Z", "10000-01-01", "yesterday", "2026-01-31T15:04", "2026-01-31 15:04", "2026-01-31T15:04Z", "2026-01-31T15:04-05:30", "2026-01-31 15:04Z", "2026-01-31 15", "2026-01-31T15:04.5", "1e3", "1.5", "<b>x</b>"} {
		questions = append(questions, [2]string{epoch, "1ms"})
	}
	for _, unit := range []string{"1ms", "10ms", "1s", "1.5s", ".5s", "1.s", "1h30m", "1us", "1µs", "1μs", "100ns", "1d",
		"", "ms", "5", "0", "-1ms", "+1ms", "1 ms",
		"1h1h", "2540400h", "999999999h", "0s", "1ms1us", "1.25ms", "<img>", "0.0000001s"} {
		questions = append(questions, [2]string{"2026-01-01", unit})
	}
	var got []struct {
		Layout *jstest.Layout
		Error  string
	}
	underNode(t, questions, `
		const widths = { timeBits: "30", clockSeqBits: "1", datacenterBits: "0", workerBits: "8", sequenceBits: "9", workerLast: false };
		return input.map(([epoch, unit]) => { const { layout, error } = design.read({ ...widths, epoch, unit }); return { Layout: layout, Error: error }; });`, &got)
	for i, q := range questions {
		want, err := texts.Layout("30/1/8/9@" + q[0] + "," + q[1])
		if err == nil {
			require.NotNil(t, got[i].Layout, "%q: %s", q, got[i].Error)
			require.Equal(t, jstest.LayoutOf(want), *got[i].Layout, "%q", q)
		} else {
			require.Nil(t, got[i].Layout, "%q: %v", q, err)
			require.ErrorContains(t, err, got[i].Error, "%q", q)
		}
	}
}

func TestLogLinesAreSearched(t *testing.T) {
	log := "2026-11-20T12:00:00.123456789Z INFO order id=117469438034313216 took 1234567890123456ms\n" +
		"\n" +
		"{\"id\":\"117469438034313217\",\"parent\":117469438034313218}\r\n" +
		"no id here 1763000000 0.123456789012345678 x123456789012345678 99999999999999999999\n" +
		"1541815603606036480,1541815603606036481"
	var got []string
	underNode(t, log, "const [r] = identify.read(input).readings; return [r.form, ...r.items.map(({ id, line }) => `${line}:${id}`)];", &got)
	assert.Equal(t, []string{"log", "1:117469438034313216", "3:117469438034313217", "3:117469438034313218",
		"5:1541815603606036480", "5:1541815603606036481"}, got)
}

// Texts, and a link's tick, that are too long are refused by their lengths: growing a BigInt by
// each character would take minutes.
func TestLongTextsAreRefused(t *testing.T) {
	var got struct {
		Calls int
		Tick  string
	}
	underNode(t, nil, `
		const real = BigInt;
		let calls = 0;
		globalThis.BigInt = (v) => (calls++, real(v));
		for (const letter of ["a", "9", "2", "Z", "-"]) identify.read(letter.repeat(10_000));
		return { Calls: calls, Tick: design.read({ ...design.texts(snowflake.layouts.default), unit: "9".repeat(2_000_000) }).error };`, &got)
	assert.Less(t, got.Calls, 100)
	assert.Contains(t, got.Tick, "is not a tick such as 10ms")
}
