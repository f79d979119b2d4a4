// Package js_test writes the vectors that snowflake.js is tested with, and runs its
// tests under node.
package js_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

var update = flag.Bool("update", false, "write vectors.json")

type (
	// vectors are inputs and what the library makes of them, by what they test.
	vectors map[string][]vector

	// vector has numbers as strings, because JSON's would be rounded. It has no error if its error is "".
	vector map[string]any
)

func (v vectors) add(kind string, one vector) { v[kind] = append(v[kind], one) }

// json returns one vector a line, so that people can read a change.
func (v vectors) json(t *testing.T) string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(v)) {
		var lines []string
		for _, one := range v[kind] {
			b, err := json.Marshal(one)
			require.NoError(t, err)
			lines = append(lines, string(b))
		}
		kinds = append(kinds, fmt.Sprintf("%q: [\n%s\n]", kind, strings.Join(lines, ",\n")))
	}
	return "{\n" + strings.Join(kinds, ",\n") + "\n}\n"
}

type named struct {
	name   string
	preset bool
	layout snowflake.Layout
}

// tested are the presets, corner cases, and layouts that Validate refuses.
var tested = []named{
	{"default", true, snowflake.DefaultLayout()},
	{"clockseq", true, snowflake.ClockSeqLayout()},
	{"jssafe", true, snowflake.JSSafeLayout()},
	{"twitter", true, layouts.Twitter()},
	{"bwmarrin", true, layouts.Bwmarrin()},
	{"discord", true, layouts.Discord()},
	{"instagram", true, layouts.Instagram()},
	{"sonyflake", true, layouts.Sonyflake()},
	{"sonyflake-v2", true, layouts.SonyflakeV2()},
	{"baidu", true, layouts.Baidu()},
	{"redis", true, layouts.Redis()},
	{"all time", false, snowflake.Layout{Unit: time.Nanosecond, TimeBits: 63}},
	{"one bit", false, snowflake.Layout{Unit: time.Hour, TimeBits: 1}},
	{"an odd unit", false, snowflake.Layout{Epoch: -12345, Unit: 1234567, TimeBits: 40, ClockSeqBits: 5, DatacenterBits: 6, WorkerBits: 5, SequenceBits: 7}},
	{"worker last", false, snowflake.Layout{Epoch: 1, Unit: time.Second, TimeBits: 30, ClockSeqBits: 2, DatacenterBits: 3, WorkerBits: 20, SequenceBits: 8, WorkerLast: true}},
	{"billions of years", false, snowflake.Layout{Unit: time.Hour, TimeBits: 48, SequenceBits: 15}},
	{"a wide worker", false, snowflake.Layout{Unit: time.Second, TimeBits: 1, WorkerBits: 62}},
	{"no unit", false, snowflake.Layout{TimeBits: 41}},
	{"a negative unit", false, snowflake.Layout{Unit: -1, TimeBits: 41}},
	{"no time", false, snowflake.Layout{Unit: 1, SequenceBits: 12}},
	{"64 bits", false, snowflake.Layout{Unit: 1, TimeBits: 41, WorkerBits: 23}},
	{"too long", false, snowflake.Layout{Unit: time.Hour, TimeBits: 63}},
}

// code names what an error matches, as snowflake.js does.
func code(t *testing.T, err error) string {
	t.Helper()
	if field := (*snowflake.FieldRangeError)(nil); errors.As(err, &field) {
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

// nanos returns a time in nanoseconds since 1970, also if an int64 cannot hold them.
func nanos(t time.Time) string {
	n := big.NewInt(t.Unix())
	return n.Mul(n, big.NewInt(1e9)).Add(n, big.NewInt(int64(t.Nanosecond()))).String()
}

func fields(p snowflake.Parts) map[string]string {
	return map[string]string{"time": nanos(p.Time), "clockSeq": strconv.Itoa(p.ClockSeq), "datacenter": strconv.Itoa(p.Datacenter),
		"worker": strconv.Itoa(p.Worker), "sequence": strconv.Itoa(p.Sequence)}
}

// write makes the vectors. They are the same each time.
func write(t *testing.T) vectors {
	v := vectors{}
	rng := rand.New(rand.NewPCG(1, 2))

	ids := []snowflake.ID{0, 1, 31, 32, 57, 58, 61, 62, 1<<53 - 1, 1 << 53, 1541815603606036480, math.MaxInt64 - 1, math.MaxInt64}
	for range 40 {
		ids = append(ids, snowflake.ID(rng.Int64()>>rng.IntN(63)))
	}
	for _, id := range ids {
		v.add("texts", vector{"id": id, "decimal": id.String(), "base32": id.Base32(), "base58": id.Base58(), "base62": id.Base62()})
	}
	v.refused()

	for _, n := range tested {
		l := n.layout
		err := l.Validate()
		one := vector{"name": n.name, "preset": n.preset, "error": code(t, err), "layout": map[string]any{
			"epoch": fmt.Sprint(int64(l.Epoch)), "unit": fmt.Sprint(int64(l.Unit)), "timeBits": l.TimeBits, "clockSeqBits": l.ClockSeqBits,
			"datacenterBits": l.DatacenterBits, "workerBits": l.WorkerBits, "sequenceBits": l.SequenceBits, "workerLast": l.WorkerLast}}
		if err == nil {
			one["expires"] = nanos(l.Expires())
		}
		v.add("layouts", one)
		if err == nil {
			v.of(t, n, rng)
		} else {
			v.encode(t, n, snowflake.Parts{Time: l.Epoch.Time()})
		}
	}

	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 999_000_000), time.Unix(0, 1), time.Unix(0, 1_000), time.Unix(0, 120_000_000), time.Unix(0, 123_400_000),
		time.Unix(0, 123_456_789), time.Date(2000, 2, 29, 23, 59, 59, 999_999_999, time.UTC), time.Date(1900, 3, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 12, 31, 1, 2, 3, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-12345, 6, 7, 8, 9, 10, 11, time.UTC),
		time.Date(5_000_000, 2, 29, 0, 0, 0, 0, time.UTC),
	} {
		text := strings.TrimPrefix(strings.Fields(snowflake.Parts{Time: at.UTC()}.String())[0], "time=")
		v.add("times", vector{"time": nanos(at), "text": text})
	}
	return v
}

// refused adds texts that the Go parser of their form refuses.
func (v vectors) refused() {
	parsers := []struct {
		form  string
		parse func(string) (snowflake.ID, error)
	}{
		{"decimal", snowflake.ParseID}, {"base32", snowflake.ParseBase32}, {"base58", snowflake.ParseBase58}, {"base62", snowflake.ParseBase62},
	}
	for _, text := range []string{"", " ", "-1", "+1", "00", "01", "11", "1 ", " 1", "1\n", "1e3", "1_0", "0x10", "1n", "1.0", "１", "é",
		"9223372036854775808", "18446744073709551616", "99999999999999999999", strings.Repeat("9", 100),
		"8000000000000", "7ZZZZZZZZZZZZ", "7zzzzzzzzzzzz", "000000000000I", "000000000000", "00000000000000",
		"npL6MjP8Qfd", "npL6MjP8Qfc", "0", "l", "JPwcyDCgEuq", "AzL8n0Y58m7", "AzL8n0Y58m8", "zzzzzzzzzzz", "ZZZZZZZZZZZZ"} {
		for _, p := range parsers {
			if _, err := p.parse(text); err != nil {
				v.add("refused", vector{"form": p.form, "text": text})
			}
		}
	}
}

func (v vectors) encode(t *testing.T, n named, p snowflake.Parts) {
	id, err := n.layout.Encode(p)
	v.add("encodes", vector{"layout": n.name, "parts": fields(p), "id": id, "error": code(t, err)})
}

// of adds what is to be held of one layout.
func (v vectors) of(t *testing.T, n named, rng *rand.Rand) {
	l := n.layout
	bits := int(l.TimeBits + l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits)
	ids := []int64{0, 1, math.MaxInt64 >> (63 - bits)}
	for range 4 {
		ids = append(ids, rng.Int64()>>(63-bits))
	}
	if n.preset { // what Check refuses; the Go library holds the wildest times of other layouts
		ids = append(ids, -1, math.MinInt64, math.MaxInt64)
	}
	for _, id := range ids {
		p := l.Decode(snowflake.ID(id))
		v.add("ids", vector{"layout": n.name, "id": fmt.Sprint(id), "parts": fields(p), "text": p.String(), "error": code(t, l.Check(snowflake.ID(id)))})
	}

	first, last := l.Epoch.Time(), l.Expires().Add(-l.Unit)
	for _, at := range []time.Time{first, first.Add(-1), last, l.Expires().Add(-1), l.Expires(), first.Add(l.Unit - 1)} {
		v.encode(t, n, snowflake.Parts{Time: at})
	}
	for _, wide := range []struct {
		bits uint8
		set  func(*snowflake.Parts, int)
	}{
		{l.ClockSeqBits, func(p *snowflake.Parts, v int) { p.ClockSeq = v }},
		{l.DatacenterBits, func(p *snowflake.Parts, v int) { p.Datacenter = v }},
		{l.WorkerBits, func(p *snowflake.Parts, v int) { p.Worker = v }},
		{l.SequenceBits, func(p *snowflake.Parts, v int) { p.Sequence = v }},
	} {
		for _, value := range []int{-1, 1<<wide.bits - 1, 1 << wide.bits} {
			p := snowflake.Parts{Time: last}
			wide.set(&p, value)
			v.encode(t, n, p)
		}
	}
	for _, r := range [][2]time.Time{
		{first, last}, {first, l.Expires()}, {first, first}, {last, first}, {first.Add(-1), last}, {first, l.Expires().Add(1)},
		{first.Add(1), last}, {last, last.Add(1)}, {l.Expires(), l.Expires()},
	} {
		lo, hi, err := l.Range(r[0], r[1])
		v.add("ranges", vector{"layout": n.name, "from": nanos(r[0]), "to": nanos(r[1]), "lo": lo, "hi": hi, "error": code(t, err)})
	}
}

func TestVectorsMatchTheLibrary(t *testing.T) {
	want := write(t).json(t)
	if *update {
		require.NoError(t, os.WriteFile("vectors.json", []byte(want), 0o644))
	}
	got, err := os.ReadFile("vectors.json")
	require.NoError(t, err)
	require.Equal(t, want, strings.ReplaceAll(string(got), "\r\n", "\n"), "write it anew: go test ./js -update")
}

func TestUnderNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is not installed: apt-get install nodejs")
		}
		t.Skip("node is not installed: apt-get install nodejs")
	}
	out, err := exec.Command(node, "--test").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotRegexp(t, `(?m)# tests 0$|ℹ tests 0$`, string(out))
	t.Logf("%s", out)
}
