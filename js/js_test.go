// Package js_test compares snowflake.js with the library, and runs its own tests, under node.
package js_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/jstest"
	"github.com/seed-5394e6b1/snowflake/js"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// call is a call of a function of snowflake.js. Its numbers are texts, because JSON's would be
// rounded.
type call struct {
	Do     string
	Text   string         // an ID, or a text to parse
	Layout *jstest.Layout `json:",omitempty"`
	Times  []string
	Fields []string // clock sequence, datacenter, worker, sequence
}

// answers is a script that answers calls with snowflake.js. The answer to a refused call is the
// name of the error.
var answers = `
	const parts = ({ Times: [time], Fields: [clockSeq, datacenter, worker, sequence] }) => Object.fromEntries(
		Object.entries({ time, clockSeq, datacenter, worker, sequence }).map(([k, v]) => [k, BigInt(v)]));
	const does = {
		validate: (l) => snowflake.validate(l) ?? "",
		expires: (l) => snowflake.expires(l),
		check: (l, c) => snowflake.check(l, BigInt(c.Text)) ?? "",
		decode: (l, c) => snowflake.format(snowflake.decode(l, BigInt(c.Text))),
		encode: (l, c) => snowflake.encode(l, parts(c)),
		range: (l, c) => Object.entries(snowflake.range(l, ...c.Times.map(BigInt))).join(),
		texts: (_, c) => [snowflake.base32, snowflake.base58, snowflake.base62].map((f) => f(BigInt(c.Text))).join(),
		parse: (_, c) => snowflake.parse(c.Text), parseBase32: (_, c) => snowflake.parseBase32(c.Text),
		parseBase58: (_, c) => snowflake.parseBase58(c.Text), parseBase62: (_, c) => snowflake.parseBase62(c.Text),
		formatTime: (_, c) => snowflake.formatTime(BigInt(c.Times[0])),
		presets: () => Object.keys(snowflake.layouts).sort().join(),
		preset: (l, c) => Object.keys(l).every((k) => snowflake.layouts[c.Text][k] === l[k]),
	};
	const answer = (c) => {
		try {
			return String(does[c.Do](c.Layout && layoutOf(c.Layout), c));
		} catch (e) {
			if (!(e instanceof snowflake.SnowflakeError)) throw e;
			return c.Do === "validate" || c.Do === "check" ? e.code + ": " + e.message : e.code;
		}
	};
	return input.map(answer);`

// code returns the name of an error in snowflake.js.
func code(t *testing.T, err error) string {
	t.Helper()
	if errors.As(err, new(*snowflake.FieldRangeError)) {
		return "ErrFieldRange"
	}
	for name, sentinel := range map[string]error{
		"ErrInvalidID": snowflake.ErrInvalidID, "ErrInvalidLayout": snowflake.ErrInvalidLayout, "ErrInvalidRange": snowflake.ErrInvalidRange,
		"ErrBeforeEpoch": snowflake.ErrBeforeEpoch, "ErrTimeExhausted": snowflake.ErrTimeExhausted,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	require.NoError(t, err)
	return ""
}

// nanos returns a time in nanoseconds since 1970, of any size.
func nanos(t time.Time) string {
	n := big.NewInt(t.Unix())
	return n.Mul(n, big.NewInt(1e9)).Add(n, big.NewInt(int64(t.Nanosecond()))).String()
}

// presets are the layouts of snowflake.js: all known layouts.
var presets = func() map[string]snowflake.Layout {
	all := map[string]snowflake.Layout{}
	for _, k := range layouts.All() {
		all[k.Name] = k.Layout
	}
	return all
}()

// corners are layouts at the limits, and layouts that Validate refuses.
var corners = []snowflake.Layout{
	{Unit: time.Nanosecond, TimeBits: 63},
	{Unit: time.Hour, TimeBits: 1},
	{Epoch: -12345, Unit: 1234567, TimeBits: 40, ClockSeqBits: 5, DatacenterBits: 6, WorkerBits: 5, SequenceBits: 7},
	{Epoch: 1, Unit: time.Second, TimeBits: 30, ClockSeqBits: 2, DatacenterBits: 3, WorkerBits: 20, SequenceBits: 8, WorkerLast: true},
	{Unit: time.Hour, TimeBits: 48, SequenceBits: 15},
	{Unit: time.Second, TimeBits: 1, WorkerBits: 62},
	{TimeBits: 41}, {Unit: -1, TimeBits: 41}, {Unit: 1, SequenceBits: 12}, {Unit: 1, TimeBits: 41, WorkerBits: 23}, {Unit: time.Hour, TimeBits: 63},
}

// asked are calls, with the library's answers.
type asked struct {
	calls []call
	want  []string
}

func (a *asked) ask(c call, want string) {
	a.calls, a.want = append(a.calls, c), append(a.want, want)
}

// texts asks for the texts of an ID, and for the ID of each.
func (a *asked) texts(t *testing.T, id snowflake.ID) {
	a.ask(call{Do: "texts", Text: id.String()}, strings.Join([]string{id.Base32(), id.Base58(), id.Base62()}, ","))
	for _, text := range []string{id.String(), id.Base32(), id.Base58(), id.Base62()} {
		a.parse(t, text)
	}
}

// parse asks each parser for the ID of a text.
func (a *asked) parse(t *testing.T, text string) {
	for do, parse := range map[string]func(string) (snowflake.ID, error){
		"parse": snowflake.ParseID, "parseBase32": snowflake.ParseBase32, "parseBase58": snowflake.ParseBase58, "parseBase62": snowflake.ParseBase62,
	} {
		if id, err := parse(text); err != nil {
			a.ask(call{Do: do, Text: text}, code(t, err))
		} else {
			a.ask(call{Do: do, Text: text}, id.String())
		}
	}
}

// layout asks for all properties of a layout.
func (a *asked) layout(t *testing.T, l snowflake.Layout, r *rand.Rand) {
	in := jstest.LayoutOf(l)
	if err := l.Validate(); err != nil {
		a.ask(call{Do: "validate", Layout: &in}, "ErrInvalidLayout: "+strings.TrimPrefix(err.Error(), "snowflake: invalid layout: "))
		a.ask(call{Do: "encode", Layout: &in, Times: []string{"0"}, Fields: []string{"0", "0", "0", "0"}}, "ErrInvalidLayout")
		return
	}
	a.ask(call{Do: "validate", Layout: &in}, "")
	a.ask(call{Do: "expires", Layout: &in}, nanos(l.Expires()))
	bits := int(l.TimeBits + l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits)
	for _, id := range []int64{0, 1, math.MaxInt64 >> (63 - bits), r.Int64() >> (63 - bits), r.Int64() >> r.IntN(63), -1, math.MinInt64} {
		c := call{Do: "check", Layout: &in, Text: fmt.Sprint(id)}
		if err := l.Check(snowflake.ID(id)); err != nil {
			a.ask(c, "ErrInvalidID: "+strings.TrimPrefix(err.Error(), "snowflake: invalid ID: "))
			continue
		}
		a.ask(c, "")
		a.decode(l, id)
		a.encode(t, l, l.Decode(snowflake.ID(id)))
	}
	first, last := l.Epoch.Time(), l.Expires().Add(-l.Unit)
	times := []time.Time{first, first.Add(-1), last, l.Expires().Add(-1), l.Expires(), l.Expires().Add(1),
		first.Add(l.Unit - 1), first.Add(1)}
	for _, at := range times {
		field := func(bits uint8) int { return []int{0, -1, 1<<bits - 1, 1 << bits, 0, 0, 0, 0}[r.IntN(8)] }
		a.encode(t, l, snowflake.Parts{Time: at})
		a.encode(t, l, snowflake.Parts{Time: at, ClockSeq: field(l.ClockSeqBits), Datacenter: field(l.DatacenterBits),
			Worker: field(l.WorkerBits), Sequence: field(l.SequenceBits)})
		to := times[r.IntN(len(times))]
		c := call{Do: "range", Layout: &in, Times: []string{nanos(at), nanos(to)}}
		if lo, hi, err := l.Range(at, to); err != nil {
			a.ask(c, code(t, err))
		} else {
			a.ask(c, fmt.Sprintf("lo,%d,hi,%d", lo, hi))
		}
	}
}

func (a *asked) decode(l snowflake.Layout, id int64) {
	in := jstest.LayoutOf(l)
	a.ask(call{Do: "decode", Layout: &in, Text: fmt.Sprint(id)}, l.Decode(snowflake.ID(id)).String())
}

func (a *asked) encode(t *testing.T, l snowflake.Layout, p snowflake.Parts) {
	in := jstest.LayoutOf(l)
	c := call{Do: "encode", Layout: &in, Times: []string{nanos(p.Time)}}
	for _, v := range []int{p.ClockSeq, p.Datacenter, p.Worker, p.Sequence} {
		c.Fields = append(c.Fields, fmt.Sprint(v))
	}
	if id, err := l.Encode(p); err != nil {
		a.ask(c, code(t, err))
	} else {
		a.ask(c, id.String())
	}
}

// snowflake.js answers as the library does. It refuses what the library refuses: a layout and an ID
// in the same words.
func TestAnswersAreTheLibrarys(t *testing.T) {
	a, r := new(asked), rand.New(rand.NewPCG(1, 2))
	a.ask(call{Do: "presets"}, strings.Join(slices.Sorted(maps.Keys(presets)), ","))
	for name, l := range presets {
		in := jstest.LayoutOf(l)
		a.ask(call{Do: "preset", Text: name, Layout: &in}, "true")
		a.layout(t, l, r)
		// The corners are left out, because the Go library caps the wildest times of other layouts.
		for _, id := range []int64{-1, math.MinInt64, math.MaxInt64} {
			a.decode(l, id)
		}
	}
	for _, l := range corners {
		a.layout(t, l, r)
	}
	for _, id := range []snowflake.ID{0, 1, 31, 32, 57, 58, 61, 62, 1<<53 - 1, 1 << 53, math.MaxInt64 - 1, math.MaxInt64} {
		a.texts(t, id)
	}
	for _, text := range []string{"", " ", "-1", "+1", "00", "01", "11", "1 ", " 1", "1\n", "1e3", "1_0", "0x10", "1n", "1.0", "１", "é",
		"9223372036854775808", "18446744073709551616", "99999999999999999999", strings.Repeat("9", 100),
		"8000000000000", "7ZZZZZZZZZZZZ", "7zzzzzzzzzzzz", "000000000000I", "000000000000", "00000000000000",
		"npL6MjP8Qfd", "npL6MjP8Qfc", "0", "l", "JPwcyDCgEuq", "AzL8n0Y58m7", "AzL8n0Y58m8", "zzzzzzzzzzz", "ZZZZZZZZZZZZ"} {
		a.parse(t, text)
	}
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 999_000_000), time.Unix(0, 1), time.Unix(0, 1_000), time.Unix(0, 120_000_000), time.Unix(0, 123_400_000),
		time.Unix(0, 123_456_789), time.Date(2000, 2, 29, 23, 59, 59, 999_999_999, time.UTC), time.Date(1900, 3, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 12, 31, 1, 2, 3, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-12345, 6, 7, 8, 9, 10, 11, time.UTC),
		time.Date(5_000_000, 2, 29, 0, 0, 0, 0, time.UTC),
	} {
		a.ask(call{Do: "formatTime", Times: []string{nanos(at)}},
			strings.TrimPrefix(strings.Fields(snowflake.Parts{Time: at.UTC()}.String())[0], "time="))
	}
	for range depth.Of(500, 20_000) {
		a.layout(t, jstest.RandomLayout(r), r)
		a.texts(t, snowflake.ID(r.Int64()>>r.IntN(63)))
	}
	var got []string
	jstest.Run(t, map[string]string{"snowflake.js": js.Source()}, `import * as snowflake from "./snowflake.js";`, a.calls, answers, &got)
	require.Len(t, got, len(a.want))
	for i := range got {
		require.Equal(t, a.want[i], got[i], "%+v, %+v", a.calls[i], a.calls[i].Layout)
	}
}

func TestUnderNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: apt-get install nodejs")
	}
	// Read the directory, so that a cached test result counts only while the scripts are unchanged.
	_, err = os.ReadDir(".")
	require.NoError(t, err)
	out, err := exec.Command(node, "--test").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotRegexp(t, `(?m)# tests 0$|ℹ tests 0$`, string(out))
	t.Logf("%s", out)
}
