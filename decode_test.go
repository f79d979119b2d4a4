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
	tests := []struct {
		name   string
		layout snowflake.Layout
		parts  snowflake.Parts
		is     error
		want   string // value and limit are in it
		field  *snowflake.FieldRangeError
	}{
		{"clock sequence over", l, snowflake.Parts{Time: epoch, ClockSeq: 4}, snowflake.ErrInvalidID,
			"clock sequence 4 does not fit the layout, which has room for 0 to 3", &snowflake.FieldRangeError{Field: "clock sequence", Value: 4, Max: 3}},
		{"clock sequence under", l, snowflake.Parts{Time: epoch, ClockSeq: -1}, snowflake.ErrInvalidID,
			"clock sequence -1 does not fit the layout, which has room for 0 to 3", &snowflake.FieldRangeError{Field: "clock sequence", Value: -1, Max: 3}},
		{"datacenter over", l, snowflake.Parts{Time: epoch, Datacenter: 8}, snowflake.ErrWorkerRange,
			"datacenter 8 does not fit the layout, which has room for 0 to 7", &snowflake.FieldRangeError{Field: "datacenter", Value: 8, Max: 7}},
		{"datacenter under", l, snowflake.Parts{Time: epoch, Datacenter: -1}, snowflake.ErrWorkerRange,
			"datacenter -1 does not fit the layout, which has room for 0 to 7", &snowflake.FieldRangeError{Field: "datacenter", Value: -1, Max: 7}},
		{"worker over", l, snowflake.Parts{Time: epoch, Worker: 16}, snowflake.ErrWorkerRange,
			"worker 16 does not fit the layout, which has room for 0 to 15", &snowflake.FieldRangeError{Field: "worker", Value: 16, Max: 15}},
		{"worker far under", l, snowflake.Parts{Time: epoch, Worker: math.MinInt}, snowflake.ErrWorkerRange,
			fmt.Sprintf("worker %d does not fit the layout, which has room for 0 to 15", math.MinInt), &snowflake.FieldRangeError{Field: "worker", Value: math.MinInt, Max: 15}},
		{"sequence over", l, snowflake.Parts{Time: epoch, Sequence: 32}, snowflake.ErrInvalidID,
			"sequence 32 does not fit the layout, which has room for 0 to 31", &snowflake.FieldRangeError{Field: "sequence", Value: 32, Max: 31}},
		{"sequence far over", l, snowflake.Parts{Time: epoch, Sequence: math.MaxInt}, snowflake.ErrInvalidID,
			fmt.Sprintf("sequence %d does not fit the layout, which has room for 0 to 31", math.MaxInt), &snowflake.FieldRangeError{Field: "sequence", Value: math.MaxInt, Max: 31}},

		{"a worker without worker bits", none, snowflake.Parts{Time: epoch, Worker: 1}, snowflake.ErrWorkerRange,
			"worker 1 does not fit the layout, which has no bits for it: only 0 does", &snowflake.FieldRangeError{Field: "worker", Value: 1}},
		{"a datacenter without datacenter bits", none, snowflake.Parts{Time: epoch, Datacenter: 1}, snowflake.ErrWorkerRange,
			"datacenter 1 does not fit the layout, which has no bits for it: only 0 does", &snowflake.FieldRangeError{Field: "datacenter", Value: 1}},
		{"a sequence without sequence bits", none, snowflake.Parts{Time: epoch, Sequence: 1}, snowflake.ErrInvalidID,
			"sequence 1 does not fit the layout, which has no bits for it: only 0 does", &snowflake.FieldRangeError{Field: "sequence", Value: 1}},
		{"a clock sequence without clock-sequence bits", none, snowflake.Parts{Time: epoch, ClockSeq: 1}, snowflake.ErrInvalidID,
			"clock sequence 1 does not fit the layout, which has no bits for it: only 0 does", &snowflake.FieldRangeError{Field: "clock sequence", Value: 1}},

		{"just before the epoch", l, snowflake.Parts{Time: epoch.Add(-1)}, snowflake.ErrBeforeEpoch,
			"2025-12-31T23:59:59.999999999Z is before 2026-01-01T00:00:00.000Z", nil},
		{"the zero time", l, snowflake.Parts{}, snowflake.ErrBeforeEpoch,
			"0001-01-01T00:00:00.000Z is before 2026-01-01T00:00:00.000Z", nil},
		{"the end", l, snowflake.Parts{Time: l.Expires()}, snowflake.ErrTimeExhausted,
			"it ended at 2095-09-07T15:47:35.552Z, the time is 2095-09-07T15:47:35.552Z", nil},
		{"a whole span past the end", l, snowflake.Parts{Time: epoch.Add(2 * (1 << 41) * time.Millisecond)}, snowflake.ErrTimeExhausted,
			"it ended at 2095-09-07T15:47:35.552Z, the time is 2165-05-15T07:35:11.104Z", nil},
		{"past all that a Duration can measure", l, snowflake.Parts{Time: time.Unix(1<<60, 0)}, snowflake.ErrTimeExhausted,
			"it ended at 2095-09-07T15:47:35.552Z, the time is ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := tt.layout.Encode(tt.parts)
			require.ErrorIs(t, err, tt.is)
			require.ErrorContains(t, err, tt.want)
			assert.Zero(t, id)
			var field *snowflake.FieldRangeError
			require.Equal(t, tt.field != nil, errors.As(err, &field))
			if tt.field != nil {
				assert.Equal(t, *tt.field, *field)
			}
		})
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
}

func TestPartsInAStructuredLog(t *testing.T) {
	p := snowflake.Parts{Time: time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC), ClockSeq: 1, Datacenter: 2, Worker: 7, Sequence: 42}
	noTime := &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, noTime)).Info("order created", "id", p)
	assert.Equal(t, `level=INFO msg="order created" id.time=2026-11-21T08:30:00.000Z id.clockseq=1 id.datacenter=2 id.worker=7 id.sequence=42`,
		strings.TrimSpace(b.String()))
	b.Reset()
	slog.New(slog.NewJSONHandler(&b, noTime)).Info("order created", "id", p)
	assert.Equal(t, `{"level":"INFO","msg":"order created","id":{"time":"2026-11-21T08:30:00Z","clockseq":1,"datacenter":2,"worker":7,"sequence":42}}`,
		strings.TrimSpace(b.String()))
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
