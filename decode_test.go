package snowflake_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func TestPartsHaveTheSameKeysInTextJSONAndLogs(t *testing.T) {
	for _, tt := range []struct {
		id     snowflake.ID
		layout snowflake.Layout
		keys   []string
	}{
		{0, snowflake.DefaultLayout(), []string{"time", "worker", "sequence"}},
		{117594862387228672, snowflake.DefaultLayout(), []string{"time", "worker", "sequence"}},
		{117594862387228672, snowflake.ClockSeqLayout(), []string{"time", "worker", "sequence"}},
		{117594862387228672 + 1<<19, snowflake.ClockSeqLayout(), []string{"time", "clockseq", "worker", "sequence"}},
		{1541815603606036480, layouts.Twitter(), []string{"time", "datacenter", "worker", "sequence"}},
		{math.MaxInt64, snowflake.Layout{Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 2, DatacenterBits: 5, WorkerBits: 5, SequenceBits: 10},
			[]string{"time", "clockseq", "datacenter", "worker", "sequence"}},
	} {
		p := tt.layout.Decode(tt.id)
		b, err := json.Marshal(p)
		require.NoError(t, err)
		var back snowflake.Parts
		require.NoError(t, json.Unmarshal(b, &back))
		assert.Equal(t, p, back)

		var logged bytes.Buffer
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("", "id", p)
		var line struct{ ID json.RawMessage }
		require.NoError(t, json.Unmarshal(logged.Bytes(), &line))
		assert.Equal(t, string(b), string(line.ID), "the log")

		fields := strings.Fields(p.String())
		for i, field := range fields {
			fields[i], _, _ = strings.Cut(field, "=")
		}
		assert.Equal(t, tt.keys, fields, "the text")
		var names map[string]any
		require.NoError(t, json.Unmarshal(b, &names))
		assert.ElementsMatch(t, tt.keys, slices.Collect(maps.Keys(names)), "JSON")
	}
}

func TestDecodeEqualsDecodeOfDefaultLayout(t *testing.T) {
	ids := append(tellingIDs(), -1, math.MinInt64)
	for rng := rand.New(rand.NewPCG(17, 18)); len(ids) < 10_000; {
		ids = append(ids, snowflake.ID(rng.Uint64()))
	}
	for _, id := range ids {
		require.Equal(t, snowflake.DefaultLayout().Decode(id), snowflake.Decode(id), "%d", id)
	}
	assert.Equal(t,
		snowflake.Parts{Time: time.Date(2026, 1, 1, 0, 0, 0, 1e6, time.UTC), Worker: 2, Sequence: 3},
		snowflake.Decode(1<<22|2<<12|3))
}

// The references. An ID is written as the bits of its fields one after the
// other, and time is counted in nanoseconds, both without any limit.

// maxSpan is how long a layout may last: less than 2^60+1 seconds.
var maxSpan = new(big.Int).Mul(big.NewInt(1<<60+1), big.NewInt(1e9))

func slowValid(l snowflake.Layout) bool {
	total := int(l.TimeBits) + int(l.ClockSeqBits) + int(l.DatacenterBits) + int(l.WorkerBits) + int(l.SequenceBits)
	if l.Unit <= 0 || l.TimeBits == 0 || total > 63 {
		return false
	}
	if max(l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits) >= strconv.IntSize {
		return false // Parts could not hold it: a 32-bit machine
	}
	span := new(big.Int).Lsh(big.NewInt(int64(l.Unit)), uint(l.TimeBits))
	return span.Cmp(maxSpan) < 0
}

// nanos returns t in nanoseconds since 1970.
func nanos(t time.Time) *big.Int {
	n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9))
	return n.Add(n, big.NewInt(int64(t.Nanosecond())))
}

// slowTime returns the start of a tick.
func slowTime(l snowflake.Layout, tick *big.Int) time.Time {
	n := new(big.Int).Mul(tick, big.NewInt(int64(l.Unit)))
	n.Add(n, new(big.Int).Mul(big.NewInt(int64(l.Epoch)), big.NewInt(1e6)))
	sec, nsec := new(big.Int).DivMod(n, big.NewInt(1e9), new(big.Int))
	return time.Unix(sec.Int64(), nsec.Int64()).UTC()
}

// slowTick returns the tick that t lies in, rounded down.
func slowTick(l snowflake.Layout, t time.Time) *big.Int {
	n := nanos(t)
	n.Sub(n, new(big.Int).Mul(big.NewInt(int64(l.Epoch)), big.NewInt(1e6)))
	return n.Div(n, big.NewInt(int64(l.Unit)))
}

// slowFields are the fields under the time, from high to low.
func slowFields(l snowflake.Layout, p *snowflake.Parts) []struct {
	name  string
	value *int
	bits  uint8
} {
	type field = struct {
		name  string
		value *int
		bits  uint8
	}
	fields := []field{
		{"clock sequence", &p.ClockSeq, l.ClockSeqBits},
		{"datacenter", &p.Datacenter, l.DatacenterBits},
		{"worker", &p.Worker, l.WorkerBits},
		{"sequence", &p.Sequence, l.SequenceBits},
	}
	if l.WorkerLast {
		fields[2], fields[3] = fields[3], fields[2]
	}
	return fields
}

// slowEncode returns the ID, or which errors are right.
func slowEncode(l snowflake.Layout, p snowflake.Parts) (id snowflake.ID, refusals []error) {
	if !slowValid(l) {
		return 0, []error{snowflake.ErrInvalidLayout}
	}
	tick := slowTick(l, p.Time)
	switch {
	case tick.Sign() < 0:
		refusals = append(refusals, snowflake.ErrBeforeEpoch)
	case tick.BitLen() > int(l.TimeBits):
		refusals = append(refusals, snowflake.ErrTimeExhausted)
	}
	text := tick.Text(2)
	for _, f := range slowFields(l, &p) {
		switch {
		case *f.value >= 0 && big.NewInt(int64(*f.value)).BitLen() <= int(f.bits):
		case f.name == "worker" || f.name == "datacenter":
			refusals = append(refusals, snowflake.ErrWorkerRange)
		default:
			refusals = append(refusals, snowflake.ErrInvalidID)
		}
		if f.bits > 0 {
			text += fmt.Sprintf("%0*b", f.bits, *f.value)
		}
	}
	if len(refusals) > 0 {
		return 0, refusals
	}
	v, ok := new(big.Int).SetString(text, 2)
	if !ok || !v.IsInt64() {
		panic("the reference is wrong: " + text)
	}
	return snowflake.ID(v.Int64()), nil
}

// slowDecode takes id apart, for valid layouts. If the tick is not one of the
// layout's, it does not know the time.
func slowDecode(l snowflake.Layout, id snowflake.ID) (p snowflake.Parts, tick *big.Int) {
	rest := big.NewInt(int64(id))
	fields := slowFields(l, &p)
	for i := len(fields) - 1; i >= 0; i-- {
		size := new(big.Int).Lsh(big.NewInt(1), uint(fields[i].bits))
		var value *big.Int
		rest, value = new(big.Int).DivMod(rest, size, new(big.Int)) // Euclid's: never negative
		*fields[i].value = int(value.Int64())
	}
	if rest.Sign() >= 0 && rest.BitLen() <= int(l.TimeBits) {
		p.Time = slowTime(l, rest)
	}
	return p, rest
}

var units = []time.Duration{
	1, 7, time.Microsecond, 7 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
	time.Second, time.Minute, time.Hour, 999_999_999, 1_000_000_001, math.MaxInt64,
}

var epochs = []snowflake.Epoch{
	snowflake.DefaultEpoch, snowflake.TwitterEpoch, snowflake.UnixEpoch,
	-1, -999, -1000, -62135596800000, 253402300799999, math.MinInt64, math.MaxInt64,
}

// anyLayout returns a layout that may be invalid in some field.
func anyLayout(rng *rand.Rand) snowflake.Layout {
	l := snowflake.Layout{
		Epoch:      epochs[rng.IntN(len(epochs))],
		Unit:       units[rng.IntN(len(units))],
		WorkerLast: rng.IntN(2) == 0,
	}
	// Cut the bits of an ID, or one more or less, into fields at random.
	total := 1 + rng.IntN(65)
	if rng.IntN(2) == 0 {
		total = 63
	}
	for _, field := range []*uint8{&l.TimeBits, &l.ClockSeqBits, &l.DatacenterBits, &l.WorkerBits, &l.SequenceBits} {
		if rng.IntN(4) == 0 {
			continue
		}
		*field = uint8(rng.IntN(total + 1))
		total -= int(*field)
	}
	l.SequenceBits += uint8(total)
	switch rng.IntN(20) {
	case 0:
		l.WorkerBits += uint8(rng.Int())
	case 1:
		l.Unit = time.Duration(rng.Int64())
	case 2:
		l.Unit = -l.Unit
	}
	return l
}

func randomLayout(rng *rand.Rand) snowflake.Layout {
	for {
		if l := anyLayout(rng); slowValid(l) {
			return l
		}
	}
}

// randomTime returns a time of the layout. If ticks are long, it is seldom the start
// of a tick.
func randomTime(rng *rand.Rand, l snowflake.Layout) time.Time {
	tick := rng.Int64() >> rng.IntN(63) & (math.MaxInt64 >> (63 - l.TimeBits))
	return slowTime(l, big.NewInt(tick)).Add(time.Duration(rng.Int64N(int64(l.Unit))))
}

func randomField(rng *rand.Rand, bits uint8) int {
	return int(rng.Int64N(1 << bits))
}

func randomParts(rng *rand.Rand, l snowflake.Layout) snowflake.Parts {
	return snowflake.Parts{
		Time:       randomTime(rng, l),
		ClockSeq:   randomField(rng, l.ClockSeqBits),
		Datacenter: randomField(rng, l.DatacenterBits),
		Worker:     randomField(rng, l.WorkerBits),
		Sequence:   randomField(rng, l.SequenceBits),
	}
}

func TestEncodeMatchesTheSlowReferenceAndDecodeUndoesIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 20000 {
		l := randomLayout(rng)
		p := randomParts(rng, l)
		id, err := l.Encode(p)
		require.NoError(t, err, "%+v %+v", l, p)
		want, refusals := slowEncode(l, p)
		require.Empty(t, refusals, "%+v %+v", l, p)
		require.Equal(t, want, id, "%+v %+v", l, p)
		require.NoError(t, l.Check(id))

		p.Time = slowTime(l, slowTick(l, p.Time))
		require.Equal(t, p, l.Decode(id), "%+v", l)
	}
}

// Encode ignores the zone and the monotonic reading of a time.
func TestEncodeIgnoresTheZone(t *testing.T) {
	l := snowflake.DefaultLayout()
	now := time.Now()
	now = now.Add(snowflake.DefaultEpoch.Time().AddDate(1, 0, 0).Sub(now))
	want, err := l.Encode(snowflake.Parts{Time: now.UTC().Round(0)})
	require.NoError(t, err)
	got, err := l.Encode(snowflake.Parts{Time: now.In(time.FixedZone("Beijing", 8*60*60))})
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, time.UTC, l.Decode(got).Time.Location())
}

func TestDecodeMatchesTheSlowReferenceAndEncodeUndoesIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 20000 {
		l := randomLayout(rng)
		checkDecode(t, l, snowflake.ID(rng.Int64()>>rng.IntN(63)))
	}
}

func TestDecodeShowsIfAnIDIsNotOfTheLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	foreign := []snowflake.ID{-1, math.MinInt64, math.MinInt64 + 1, math.MaxInt64}
	for range 2000 {
		l := randomLayout(rng)
		for _, id := range foreign {
			checkDecode(t, l, id)
		}
		checkDecode(t, l, snowflake.ID(-1-rng.Int64()))
		if bits := bitsOf(l); bits < 63 {
			checkDecode(t, l, 1<<bits)
			checkDecode(t, l, 1<<bits-1)
		}
	}
	for _, k := range layouts.All() {
		for _, id := range foreign {
			checkDecode(t, k.Layout, id)
		}
	}
	// These layouts last as long as a layout can. If an ID has more bits, its time
	// cannot be represented, but Decode must still return a time after the layout's
	// end.
	for _, l := range []snowflake.Layout{
		{Unit: time.Second, TimeBits: 60},
		{Unit: (1<<31)*time.Second + 1, TimeBits: 29},
		{Unit: (1<<31)*time.Second + 1, TimeBits: 29, Epoch: math.MaxInt64},
		{Unit: (1<<31)*time.Second + 1, TimeBits: 29, Epoch: math.MinInt64},
	} {
		require.NoError(t, l.Validate())
		for shift := range 63 {
			checkDecode(t, l, 1<<shift)
			checkDecode(t, l, -1<<shift)
		}
	}
}

func bitsOf(l snowflake.Layout) int {
	return int(l.TimeBits) + int(l.ClockSeqBits) + int(l.DatacenterBits) + int(l.WorkerBits) + int(l.SequenceBits)
}

// checkDecode holds Decode, Check and Encode to their promises for any id of a
// valid layout.
func checkDecode(t *testing.T, l snowflake.Layout, id snowflake.ID) {
	t.Helper()
	p := l.Decode(id)
	want, tick := slowDecode(l, id)
	back, err := l.Encode(p)
	switch {
	case tick.Sign() < 0:
		require.True(t, p.Time.Before(l.Epoch.Time()), "%+v: %d decodes to %v", l, id, p)
		require.ErrorIs(t, err, snowflake.ErrBeforeEpoch)
		want.Time = p.Time
	case tick.BitLen() > int(l.TimeBits):
		require.False(t, p.Time.Before(l.Expires()), "%+v: %d decodes to %v", l, id, p)
		require.ErrorIs(t, err, snowflake.ErrTimeExhausted)
		want.Time = p.Time
	default:
		require.NoError(t, err, "%+v %d", l, id)
		require.Equal(t, id, back, "%+v", l)
		require.NoError(t, l.Check(id))
	}
	if err != nil {
		require.ErrorIs(t, l.Check(id), snowflake.ErrInvalidID, "%+v %d", l, id)
	}
	require.Equal(t, want, p, "%+v %d", l, id)
}

func TestDecodeAndCheckOfInvalidLayoutsDoNotPanic(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for range 20000 {
		l := snowflake.Layout{
			Epoch:          snowflake.Epoch(rng.Uint64()),
			Unit:           time.Duration(rng.Uint64()),
			TimeBits:       uint8(rng.Uint32()),
			ClockSeqBits:   uint8(rng.Uint32()),
			DatacenterBits: uint8(rng.Uint32()),
			WorkerBits:     uint8(rng.Uint32()),
			SequenceBits:   uint8(rng.Uint32()),
			WorkerLast:     rng.IntN(2) == 0,
		}
		for _, id := range []snowflake.ID{0, 1, -1, math.MaxInt64, math.MinInt64, snowflake.ID(rng.Uint64())} {
			_ = l.Decode(id).String()
			_ = l.Check(id)
		}
		_ = l.Expires()
		_ = l.String()
	}
	for _, id := range []snowflake.ID{0, 1, -1, math.MaxInt64, math.MinInt64} {
		_ = snowflake.Layout{}.Decode(id).String()
	}
}

func TestEncodeRefusesFieldsThatDoNotFit(t *testing.T) {
	l := snowflake.Layout{
		Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond,
		TimeBits: 41, ClockSeqBits: 2, DatacenterBits: 3, WorkerBits: 4, SequenceBits: 5,
	}
	none := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond, TimeBits: 41}
	epoch := l.Epoch.Time()
	field := func(name string, value, max int) error {
		return &snowflake.FieldRangeError{Field: name, Value: value, Max: max}
	}
	for _, tt := range []struct {
		layout snowflake.Layout
		parts  snowflake.Parts
		want   error
	}{
		{l, snowflake.Parts{ClockSeq: 4}, field("clock sequence", 4, 3)},
		{l, snowflake.Parts{ClockSeq: -1}, field("clock sequence", -1, 3)},
		{l, snowflake.Parts{Datacenter: 8}, field("datacenter", 8, 7)},
		{l, snowflake.Parts{Datacenter: -1}, field("datacenter", -1, 7)},
		{l, snowflake.Parts{Worker: 16}, field("worker", 16, 15)},
		{l, snowflake.Parts{Worker: math.MinInt}, field("worker", math.MinInt, 15)},
		{l, snowflake.Parts{Sequence: 32}, field("sequence", 32, 31)},
		{l, snowflake.Parts{Sequence: math.MaxInt}, field("sequence", math.MaxInt, 31)},
		{none, snowflake.Parts{Worker: 1}, field("worker", 1, 0)},
		{none, snowflake.Parts{Datacenter: 1}, field("datacenter", 1, 0)},
		{none, snowflake.Parts{Sequence: 1}, field("sequence", 1, 0)},
		{none, snowflake.Parts{ClockSeq: 1}, field("clock sequence", 1, 0)},
	} {
		tt.parts.Time = epoch
		id, err := tt.layout.Encode(tt.parts)
		assert.Equal(t, tt.want, err)
		assert.Zero(t, id)
	}
	for _, tt := range []struct {
		at   time.Time
		is   error
		want string
	}{
		{epoch.Add(-1), snowflake.ErrBeforeEpoch, "2025-12-31T23:59:59.999999999Z is before 2026-01-01T00:00:00.000Z"},
		{time.Time{}, snowflake.ErrBeforeEpoch, "0001-01-01T00:00:00.000Z is before 2026-01-01T00:00:00.000Z"},
		{l.Expires(), snowflake.ErrTimeExhausted, "it ended at 2095-09-07T15:47:35.552Z, the time is 2095-09-07T15:47:35.552Z"},
		{epoch.Add(2 * (1 << 41) * time.Millisecond), snowflake.ErrTimeExhausted, "it ended at 2095-09-07T15:47:35.552Z, the time is 2165-05-15T07:35:11.104Z"},
		{time.Unix(1<<60, 0), snowflake.ErrTimeExhausted, "it ended at 2095-09-07T15:47:35.552Z, the time is "}, // a Duration cannot measure it
	} {
		id, err := l.Encode(snowflake.Parts{Time: tt.at})
		require.ErrorIs(t, err, tt.is)
		require.ErrorContains(t, err, tt.want)
		assert.Zero(t, id)
	}
}

func TestRangeHoldsExactlyTheIDsOfItsTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for range 5000 {
		l := randomLayout(rng)
		from, to := randomTime(rng, l), randomTime(rng, l)
		switch rng.IntN(4) {
		case 0:
			to = l.Expires().Add(-time.Duration(rng.Int64N(int64(l.Unit)/2 + 1)))
		case 1, 2:
			to = from.Add(time.Duration(rng.Int64N(int64(min(l.Unit, math.MaxInt64/8)) * 4)))
			if to.After(l.Expires()) {
				to = l.Expires()
			}
		}
		if to.Before(from) {
			from, to = to, from
		}
		lo, hi, err := l.Range(from, to)
		if bitsOf(l) == 63 && to.After(l.Expires().Add(-l.Unit)) {
			require.ErrorIs(t, err, snowflake.ErrTimeExhausted, "%+v", l)
			continue
		}
		require.NoError(t, err, "%+v %v %v", l, from, to)
		require.LessOrEqual(t, lo, hi)
		ids := []snowflake.ID{0, lo - 1, lo, lo + 1, hi - 1, hi, hi + 1, lo + (hi-lo)/2, math.MaxInt64}
		for range 10 {
			ids = append(ids, snowflake.ID(rng.Int64()>>(63-bitsOf(l))))
			id, err := l.Encode(randomParts(rng, l))
			require.NoError(t, err)
			ids = append(ids, id)
		}
		for _, id := range ids {
			if l.Check(id) != nil {
				continue
			}
			at := l.Decode(id).Time
			require.Equal(t, !at.Before(from) && at.Before(to), lo <= id && id < hi,
				"%+v: %d was stamped at %v, the range [%v, %v) is [%d, %d)", l, id, at, from, to, lo, hi)
		}
	}
}

func TestRangeAtTheEdgesOfTicksAndLayouts(t *testing.T) {
	js, def := snowflake.JSSafeLayout(), snowflake.DefaultLayout() // 52 bits, 63 bits
	sevens := snowflake.Layout{Unit: 7, TimeBits: 63}
	epoch := snowflake.DefaultEpoch.Time()
	const jsTick, defTick = 1 << 19, 1 << 22
	tests := []struct {
		name     string
		layout   snowflake.Layout
		from, to time.Time
		lo, hi   snowflake.ID
		err      error
	}{
		{"equal times on a tick", def, epoch.Add(time.Second), epoch.Add(time.Second), 1000 * defTick, 1000 * defTick, nil},
		{"equal times in a tick", js, epoch.Add(time.Second + 1), epoch.Add(time.Second + 1), 2 * jsTick, 2 * jsTick, nil},
		{"from the epoch", def, epoch, epoch.Add(time.Millisecond), 0, defTick, nil},
		{"the epoch alone", def, epoch, epoch, 0, 0, nil},
		{"within one tick", js, epoch.Add(1), epoch.Add(2), jsTick, jsTick, nil},
		{"from within a tick", js, epoch.Add(1), epoch.Add(time.Second + 1), jsTick, 2 * jsTick, nil},
		{"to just past the start of a tick", js, epoch, epoch.Add(1), 0, jsTick, nil},

		{"52 bits: all", js, epoch, js.Expires(), 0, 1 << 52, nil},
		{"52 bits: the end alone", js, js.Expires(), js.Expires(), 1 << 52, 1 << 52, nil},
		{"52 bits: to within the last tick", js, epoch, js.Expires().Add(-1), 0, 1 << 52, nil},
		{"52 bits: the last tick", js, js.Expires().Add(-time.Second), js.Expires(), 1<<52 - jsTick, 1 << 52, nil},
		{"52 bits: past the end", js, epoch, js.Expires().Add(1), 0, 0, snowflake.ErrTimeExhausted},
		{"52 bits: from past the end", js, js.Expires().Add(1), js.Expires().Add(1), 0, 0, snowflake.ErrTimeExhausted},

		{"63 bits: up to the last tick", def, epoch, def.Expires().Add(-time.Millisecond), 0, math.MaxInt64 - defTick + 1, nil},
		{"63 bits: to within the last tick", def, epoch, def.Expires().Add(-time.Millisecond + 1), 0, 0, snowflake.ErrTimeExhausted},
		{"63 bits: to just before the end", def, epoch, def.Expires().Add(-1), 0, 0, snowflake.ErrTimeExhausted},
		{"63 bits: all", def, epoch, def.Expires(), 0, 0, snowflake.ErrTimeExhausted},
		{"63 bits: past the end", def, epoch, def.Expires().Add(1), 0, 0, snowflake.ErrTimeExhausted},
		{"63 bits of time alone: up to the last tick", snowflake.Layout{Unit: 1, TimeBits: 63}, time.Unix(0, 0), time.Unix(0, math.MaxInt64), 0, math.MaxInt64, nil},
		{"63 bits of time alone: all", snowflake.Layout{Unit: 1, TimeBits: 63}, time.Unix(0, 0), time.Unix(0, math.MaxInt64).Add(1), 0, 0, snowflake.ErrTimeExhausted},
		{"63 bits of time alone: to within the last tick", sevens, time.Unix(0, 0), sevens.Expires().Add(-1), 0, 0, snowflake.ErrTimeExhausted},
		{"63 bits of time alone: to the start of the last tick", sevens, time.Unix(0, 0), sevens.Expires().Add(-7), 0, math.MaxInt64, nil},

		{"reversed", def, epoch.Add(1), epoch, 0, 0, snowflake.ErrInvalidRange},
		{"reversed and outside", def, def.Expires().Add(1), epoch.Add(-1), 0, 0, snowflake.ErrInvalidRange},
		{"from before the epoch", def, epoch.Add(-1), epoch, 0, 0, snowflake.ErrBeforeEpoch},
		{"both before the epoch", def, time.Time{}, time.Time{}, 0, 0, snowflake.ErrBeforeEpoch},
		{"past all that a Duration can measure", js, epoch, time.Unix(1<<60, 0), 0, 0, snowflake.ErrTimeExhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi, err := tt.layout.Range(tt.from, tt.to)
			require.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.lo, lo, "lo")
			assert.Equal(t, tt.hi, hi, "hi")
		})
	}
}

func TestRangeErrorsNameTheTimes(t *testing.T) {
	l := snowflake.DefaultLayout()
	epoch := l.Epoch.Time()
	_, _, err := l.Range(epoch.Add(time.Second), epoch)
	assert.EqualError(t, err, "snowflake: invalid range: from 2026-01-01T00:00:01.000Z is after to 2026-01-01T00:00:00.000Z")
	_, _, err = l.Range(epoch.Add(-time.Second), epoch)
	assert.EqualError(t, err, "snowflake: time before the epoch: 2025-12-31T23:59:59.000Z is before 2026-01-01T00:00:00.000Z")
	_, _, err = l.Range(epoch, l.Expires().Add(time.Millisecond))
	assert.EqualError(t, err, "snowflake: layout has run out of time: it ended at 2095-09-07T15:47:35.552Z, the time is 2095-09-07T15:47:35.553Z")
}

func TestPartsString(t *testing.T) {
	tests := []struct {
		parts snowflake.Parts
		want  string
	}{
		{snowflake.Parts{}, "time=0001-01-01T00:00:00.000Z worker=0 sequence=0"},
		{
			snowflake.Parts{Time: time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC), Worker: 7, Sequence: 42},
			"time=2026-11-21T08:30:00.000Z worker=7 sequence=42",
		},
		{
			snowflake.Parts{Time: time.Date(2026, 11, 21, 16, 30, 0, 1000, time.FixedZone("Beijing", 8*60*60)), ClockSeq: 1, Datacenter: 2, Worker: 3, Sequence: 4},
			"time=2026-11-21T08:30:00.000001Z clockseq=1 datacenter=2 worker=3 sequence=4",
		},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, tt.parts.String())
		assert.Equal(t, tt.want, fmt.Sprint(tt.parts))
	}
	b, err := json.Marshal(tests[1].parts)
	require.NoError(t, err)
	assert.Equal(t, `{"time":"2026-11-21T08:30:00Z","worker":7,"sequence":42}`, string(b))
}

func FuzzDecodeEncode(f *testing.F) {
	add := func(l snowflake.Layout, id snowflake.ID, p snowflake.Parts) {
		f.Add(int64(l.Epoch), int64(l.Unit), l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast,
			int64(id), p.Time.Unix(), int64(p.Time.Nanosecond()), int64(p.ClockSeq), int64(p.Datacenter), int64(p.Worker), int64(p.Sequence))
	}
	for _, k := range layouts.All() {
		l := k.Layout
		add(l, 1541815603606036480, lastParts(l))
		add(l, math.MinInt64, snowflake.Parts{Time: l.Epoch.Time().Add(-1)})
		add(l, math.MaxInt64, snowflake.Parts{Time: l.Expires(), Worker: 1 << l.WorkerBits, Sequence: -1})
	}
	add(snowflake.Layout{}, 1, snowflake.Parts{})
	add(snowflake.Layout{Unit: 1, TimeBits: 63, Epoch: math.MinInt64}, -1, snowflake.Parts{Time: time.Unix(1<<60, 0)})
	add(snowflake.Layout{Unit: 1, TimeBits: 128, SequenceBits: 128}, -1, snowflake.Parts{Sequence: math.MaxInt})
	add(snowflake.Layout{Unit: (1<<31)*time.Second + 1, TimeBits: 29}, 1<<34, snowflake.Parts{Time: time.Unix(1<<60, 0)})
	f.Fuzz(func(t *testing.T, epoch, unit int64, timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits uint8, workerLast bool,
		id, sec, nsec, clockSeq, datacenter, worker, sequence int64) {
		l := snowflake.Layout{
			Epoch: snowflake.Epoch(epoch), Unit: time.Duration(unit), TimeBits: timeBits, ClockSeqBits: clockSeqBits,
			DatacenterBits: datacenterBits, WorkerBits: workerBits, SequenceBits: sequenceBits, WorkerLast: workerLast,
		}
		// A time.Time itself wraps in the last of 292 billion years.
		p := snowflake.Parts{
			Time:     time.Unix(sec>>1, nsec>>1).UTC(),
			ClockSeq: int(clockSeq), Datacenter: int(datacenter), Worker: int(worker), Sequence: int(sequence),
		}
		require.Equal(t, slowValid(l), l.Validate() == nil, "%+v: %v", l, l.Validate())
		if l.Validate() == nil {
			checkDecode(t, l, snowflake.ID(id))
		} else {
			_, _, _ = l.Decode(snowflake.ID(id)).String(), l.Check(snowflake.ID(id)), l.Expires()
		}

		want, refusals := slowEncode(l, p)
		got, err := l.Encode(p)
		if len(refusals) == 0 {
			require.NoError(t, err, "%+v %+v", l, p)
			require.Equal(t, want, got, "%+v %+v", l, p)
			p.Time = slowTime(l, slowTick(l, p.Time))
			require.Equal(t, p, l.Decode(got), "%+v", l)
			return
		}
		require.Zero(t, got)
		matched := false
		for _, r := range refusals {
			matched = matched || errors.Is(err, r)
		}
		require.True(t, matched, "%+v %+v: %v is not among %v", l, p, err, refusals)
	})
}

func TestDecodeOfANegativeIDIsExact(t *testing.T) {
	epoch := snowflake.DefaultEpoch.Time()
	assert.Equal(t, epoch.Add(-time.Millisecond), snowflake.Decode(-1).Time)
	assert.Equal(t, epoch.Add(-2*time.Millisecond), snowflake.Decode(-1<<22-1).Time)
}

// smallestAfter is the slow, obvious reference of Follows: of all IDs of l whose
// tick has not ended at a time, the smallest.
func smallestAfter(l snowflake.Layout, at time.Time) (snowflake.ID, bool) {
	bits := l.TimeBits + l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits
	for id := range snowflake.ID(1) << bits {
		if l.Decode(id).Time.Add(l.Unit).After(at) {
			return id, true
		}
	}
	return 0, false
}

// tiny returns a layout of few bits, whose fields, epoch and unit are random.
func tiny(r *rand.Rand) snowflake.Layout {
	return snowflake.Layout{
		Epoch: snowflake.Epoch(r.IntN(13)), Unit: time.Duration(1+r.IntN(5)) * time.Millisecond / time.Duration(1+r.IntN(2)),
		TimeBits: uint8(1 + r.IntN(4)), ClockSeqBits: uint8(r.IntN(2)), DatacenterBits: uint8(r.IntN(2)),
		WorkerBits: uint8(r.IntN(2)), SequenceBits: uint8(r.IntN(3)), WorkerLast: r.IntN(2) == 0,
	}
}

func TestFollowsAgainstAllIDsOfTinyLayouts(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 14))
		old, l := tiny(r), tiny(r)
		bits := old.TimeBits + old.ClockSeqBits + old.DatacenterBits + old.WorkerBits + old.SequenceBits
		last := snowflake.ID(r.Int64N(1 << bits))
		err := l.Follows(old, last)
		first, any := smallestAfter(l, old.Decode(last).Time.Add(old.Unit))
		var overlap *snowflake.OverlapError
		switch {
		case !any:
			outcomes["ended"]++
			require.ErrorIs(t, err, snowflake.ErrTimeExhausted, "seed %d", seed)
		case first > last:
			outcomes["follows"]++
			require.NoError(t, err, "seed %d: %v after %v of %v", seed, l, last, old)
		default:
			outcomes["overlaps"]++
			require.ErrorIs(t, err, snowflake.ErrOverlap, "seed %d: %v after %v of %v", seed, l, last, old)
			require.True(t, errors.As(err, &overlap))
			require.Equal(t, snowflake.OverlapError{Last: last, First: first, Old: old, New: l}, *overlap)
		}
	}
	for _, outcome := range []string{"ended", "follows", "overlaps"} {
		assert.Greater(t, outcomes[outcome], 100, outcome)
	}
}

// A layout whose epoch is yet to come begins with ID 0.
func TestFollowsBeforeTheEpoch(t *testing.T) {
	l := snowflake.DefaultLayout()
	err := l.Follows(layouts.Bwmarrin(), 5)
	assert.EqualError(t, err, "snowflake: layouts overlap: the old layout has issued 5, stamped 2010-11-04T01:42:54.657Z; "+
		"the first ID of the new layout, stamped 2026-01-01T00:00:00.000Z, is 0")
}

func TestFollowsRefuses(t *testing.T) {
	l := snowflake.DefaultLayout()
	assert.ErrorIs(t, l.Follows(l, -1), snowflake.ErrInvalidID)
	assert.ErrorIs(t, l.Follows(snowflake.JSSafeLayout(), 1<<52), snowflake.ErrInvalidID)
	assert.ErrorIs(t, l.Follows(snowflake.Layout{}, 1), snowflake.ErrInvalidLayout)
	assert.ErrorIs(t, snowflake.Layout{}.Follows(l, 1), snowflake.ErrInvalidLayout)
	err := layouts.Baidu().Follows(l, 1)
	assert.ErrorIs(t, err, snowflake.ErrTimeExhausted)
	assert.ErrorContains(t, err, "ended at 2024-11-20T13:24:16.000Z, the time is 2026-01-01T00:00:00.001Z, when the new layout would begin")
}
