// Package js_test writes the vectors that snowflake.js is tested with, and runs its
// tests under node.
package js_test

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

var update = flag.Bool("update", false, "write vectors.json")

// Numbers are strings in the vectors: JSON's would be rounded.
type (
	layoutFields struct {
		Epoch          int64 `json:"epoch,string"`
		Unit           int64 `json:"unit,string"`
		TimeBits       uint8 `json:"timeBits"`
		ClockSeqBits   uint8 `json:"clockSeqBits"`
		DatacenterBits uint8 `json:"datacenterBits"`
		WorkerBits     uint8 `json:"workerBits"`
		SequenceBits   uint8 `json:"sequenceBits"`
		WorkerLast     bool  `json:"workerLast"`
	}
	layoutVector struct {
		Name    string       `json:"name"`
		Preset  bool         `json:"preset,omitempty"`
		Layout  layoutFields `json:"layout"`
		Expires string       `json:"expires,omitempty"`
		Error   string       `json:"error,omitempty"`
	}
	textVector struct {
		ID      snowflake.ID `json:"id"`
		Decimal string       `json:"decimal"`
		Base32  string       `json:"base32"`
		Base58  string       `json:"base58"`
		Base62  string       `json:"base62"`
	}
	refusedVector struct {
		Form string `json:"form"`
		Text string `json:"text"`
	}
	partsFields struct {
		Time       string `json:"time"`
		ClockSeq   int    `json:"clockSeq,string"`
		Datacenter int    `json:"datacenter,string"`
		Worker     int    `json:"worker,string"`
		Sequence   int    `json:"sequence,string"`
	}
	idVector struct {
		Layout string      `json:"layout"`
		ID     int64       `json:"id,string"`
		Parts  partsFields `json:"parts"`
		Text   string      `json:"text"`
		Error  string      `json:"error,omitempty"`
	}
	encodeVector struct {
		Layout string      `json:"layout"`
		Parts  partsFields `json:"parts"`
		ID     string      `json:"id,omitempty"`
		Error  string      `json:"error,omitempty"`
	}
	rangeVector struct {
		Layout string `json:"layout"`
		From   string `json:"from"`
		To     string `json:"to"`
		Lo     string `json:"lo,omitempty"`
		Hi     string `json:"hi,omitempty"`
		Error  string `json:"error,omitempty"`
	}
	timeVector struct {
		Time string `json:"time"`
		Text string `json:"text"`
	}
)

type vectors struct {
	Layouts []layoutVector  `json:"layouts"`
	Texts   []textVector    `json:"texts"`
	Refused []refusedVector `json:"refused"`
	IDs     []idVector      `json:"ids"`
	Encodes []encodeVector  `json:"encodes"`
	Ranges  []rangeVector   `json:"ranges"`
	Times   []timeVector    `json:"times"`
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
	sec, nsec := t.Unix(), int64(t.Nanosecond())
	sign := ""
	if sec < 0 {
		if sign = "-"; nsec > 0 {
			sec, nsec = sec+1, 1e9-nsec
		}
		sec = -sec
	}
	digits := strings.TrimLeft(strconv.FormatInt(sec, 10)+strconv.FormatInt(1e9+nsec, 10)[1:], "0")
	if digits == "" {
		return "0"
	}
	return sign + digits
}

func fields(p snowflake.Parts) partsFields {
	return partsFields{nanos(p.Time), p.ClockSeq, p.Datacenter, p.Worker, p.Sequence}
}

// write makes the vectors. They are the same each time.
func write(t *testing.T) vectors {
	var v vectors
	rng := rand.New(rand.NewPCG(1, 2))

	ids := []snowflake.ID{0, 1, 31, 32, 57, 58, 61, 62, 1<<53 - 1, 1 << 53, 1541815603606036480, math.MaxInt64 - 1, math.MaxInt64}
	for range 40 {
		ids = append(ids, snowflake.ID(rng.Int64()>>rng.IntN(63)))
	}
	for _, id := range ids {
		v.Texts = append(v.Texts, textVector{id, id.String(), id.Base32(), id.Base58(), id.Base62()})
	}
	v.Refused = refused()

	for _, n := range tested {
		l := n.layout
		err := l.Validate()
		lv := layoutVector{Name: n.name, Preset: n.preset, Error: code(t, err), Layout: layoutFields{
			int64(l.Epoch), int64(l.Unit), l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast}}
		if err == nil {
			lv.Expires = nanos(l.Expires())
		}
		v.Layouts = append(v.Layouts, lv)
		if err == nil {
			v.of(t, n, rng)
		} else {
			_, err := l.Encode(snowflake.Parts{Time: l.Epoch.Time()})
			v.Encodes = append(v.Encodes, encodeVector{Layout: n.name, Parts: fields(snowflake.Parts{Time: l.Epoch.Time()}), Error: code(t, err)})
		}
	}

	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1, 999_000_000), time.Unix(0, 1), time.Unix(0, 1_000), time.Unix(0, 120_000_000), time.Unix(0, 123_400_000),
		time.Unix(0, 123_456_789), time.Date(2000, 2, 29, 23, 59, 59, 999_999_999, time.UTC), time.Date(1900, 3, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 12, 31, 1, 2, 3, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-12345, 6, 7, 8, 9, 10, 11, time.UTC),
		time.Date(5_000_000, 2, 29, 0, 0, 0, 0, time.UTC),
	} {
		v.Times = append(v.Times, timeVector{nanos(at), strings.TrimPrefix(strings.Fields(snowflake.Parts{Time: at.UTC()}.String())[0], "time=")})
	}
	return v
}

// refused are texts that the Go parser of their form refuses.
func refused() (all []refusedVector) {
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
				all = append(all, refusedVector{p.form, text})
			}
		}
	}
	return all
}

// of adds what is to be held of one layout.
func (v *vectors) of(t *testing.T, n named, rng *rand.Rand) {
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
		v.IDs = append(v.IDs, idVector{n.name, id, fields(p), p.String(), code(t, l.Check(snowflake.ID(id)))})
	}

	first, last := l.Epoch.Time(), l.Expires().Add(-l.Unit)
	encodes := []snowflake.Parts{
		{Time: first}, {Time: first.Add(-1)}, {Time: last}, {Time: l.Expires().Add(-1)}, {Time: l.Expires()}, {Time: first.Add(l.Unit - 1)},
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
			encodes = append(encodes, p)
		}
	}
	for _, p := range encodes {
		id, err := l.Encode(p)
		ev := encodeVector{Layout: n.name, Parts: fields(p), Error: code(t, err)}
		if err == nil {
			ev.ID = id.String()
		}
		v.Encodes = append(v.Encodes, ev)
	}

	for _, r := range [][2]time.Time{
		{first, last}, {first, l.Expires()}, {first, first}, {last, first}, {first.Add(-1), last}, {first, l.Expires().Add(1)},
		{first.Add(1), last}, {last, last.Add(1)}, {l.Expires(), l.Expires()},
	} {
		lo, hi, err := l.Range(r[0], r[1])
		rv := rangeVector{Layout: n.name, From: nanos(r[0]), To: nanos(r[1]), Error: code(t, err)}
		if err == nil {
			rv.Lo, rv.Hi = lo.String(), hi.String()
		}
		v.Ranges = append(v.Ranges, rv)
	}
}

func TestVectorsMatchTheLibrary(t *testing.T) {
	want, err := json.MarshalIndent(write(t), "", " ")
	require.NoError(t, err)
	want = append(want, '\n')
	if *update {
		require.NoError(t, os.WriteFile("vectors.json", want, 0o644))
	}
	got, err := os.ReadFile("vectors.json")
	require.NoError(t, err)
	require.Equal(t, string(want), strings.ReplaceAll(string(got), "\r\n", "\n"), "write it anew: go test ./js -update")
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
