//go:build go1.25

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
	"reflect"
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
		text   string
	}{
		{0, snowflake.DefaultLayout(), "time=2026-01-01T00:00:00.000Z worker=0 sequence=0"},
		{117594862387228672, snowflake.ClockSeqLayout(), "time=2026-11-21T12:00:00.000Z worker=7 sequence=0"},
		{117594862387228672 + 1<<19, snowflake.ClockSeqLayout(), "time=2026-11-21T12:00:00.000Z clockSeq=1 worker=7 sequence=0"},
		{1541815603606036480, layouts.Twitter(), "time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0"},
		{math.MaxInt64, snowflake.Layout{Unit: 125 * time.Microsecond, TimeBits: 41, ClockSeqBits: 2,
			DatacenterBits: 5, WorkerBits: 5, SequenceBits: 10},
			"time=1978-09-17T10:58:26.943875Z clockSeq=3 datacenter=31 worker=31 sequence=1023"},
	} {
		p := tt.layout.Decode(tt.id)
		assert.Equal(t, tt.text, p.String())
		inZone := p
		inZone.Time = p.Time.In(beijing)
		assert.Equal(t, tt.text, inZone.String())
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

		keys := strings.Fields(tt.text)
		for i, field := range keys {
			keys[i], _, _ = strings.Cut(field, "=")
		}
		var names map[string]any
		require.NoError(t, json.Unmarshal(b, &names))
		assert.ElementsMatch(t, keys, slices.Collect(maps.Keys(names)), "JSON")
	}
	for id, want := range map[snowflake.ID]string{
		math.MaxInt64: `"time":"559500-03-09T09:40:15.000Z"`,
		math.MinInt64: `"time":"-555449-10-26T14:19:44.000Z"`,
	} {
		var logged bytes.Buffer
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("", "id", snowflake.JSSafeLayout().Decode(id))
		assert.True(t, json.Valid(logged.Bytes()), logged.String())
		assert.Contains(t, logged.String(), want)
	}
	b, err := json.Marshal(snowflake.Decode(117594862387228714))
	require.NoError(t, err)
	assert.Equal(t, `{"time":"2026-11-21T12:00:00Z","worker":7,"sequence":42}`, string(b))
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

// The slow references: an ID is the bits of its fields, one after the other, and time is a number
// of nanoseconds, both of any size.

// maxSpan bounds the time of a layout: less than 2^60+1 seconds.
var maxSpan = new(big.Int).Mul(big.NewInt(1<<60+1), big.NewInt(1e9))

func slowValid(l snowflake.Layout) bool {
	total := int(l.TimeBits) + int(l.ClockSeqBits) + int(l.DatacenterBits) + int(l.WorkerBits) + int(l.SequenceBits)
	if l.Unit <= 0 || l.TimeBits == 0 || total > 63 {
		return false
	}
	if max(l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits) >= strconv.IntSize {
		return false // does not fit Parts on a 32-bit machine
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

// slowTick returns the tick that contains t.
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

// slowEncode returns the ID, or the errors that Encode may return.
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
		if *f.value < 0 || big.NewInt(int64(*f.value)).BitLen() > int(f.bits) {
			refusals = append(refusals, &snowflake.FieldRangeError{Field: f.name, Value: *f.value, Max: 1<<f.bits - 1})
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

// slowDecode returns the fields of id. The layout must be valid.
func slowDecode(l snowflake.Layout, id snowflake.ID) (p snowflake.Parts, tick *big.Int) {
	rest := big.NewInt(int64(id))
	for _, f := range slices.Backward(slowFields(l, &p)) {
		size := new(big.Int).Lsh(big.NewInt(1), uint(f.bits))
		var value *big.Int
		rest, value = new(big.Int).DivMod(rest, size, new(big.Int)) // Euclidean: value >= 0
		*f.value = int(value.Int64())
	}
	p.Time = slowTime(l, rest)
	return p, rest
}

var units = []time.Duration{
	1, 7, time.Microsecond, 7 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond,
	time.Second, time.Minute, time.Hour, 999_999_999, 1_000_000_001, math.MaxInt64,
}

var epochs = []snowflake.Epoch{
	snowflake.DefaultEpoch, layouts.Twitter().Epoch, snowflake.UnixEpoch,
	-1, -999, -1000, -62135596800000, 253402300799999, math.MinInt64, math.MaxInt64,
}

// anyLayout returns a layout that may be invalid.
func anyLayout(rng *rand.Rand) snowflake.Layout {
	l := snowflake.Layout{
		Epoch:      epochs[rng.IntN(len(epochs))],
		Unit:       units[rng.IntN(len(units))],
		WorkerLast: rng.IntN(2) == 0,
	}
	// Divide the bits of an ID, or one bit more or less, at random among the fields.
	total := 1 + rng.IntN(65)
	if rng.IntN(2) == 0 {
		total = 63
	}
	fields := []*uint8{&l.TimeBits, &l.ClockSeqBits, &l.DatacenterBits, &l.WorkerBits, &l.SequenceBits}
	for _, field := range fields {
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
	case 3:
		l.Epoch, l.Unit = snowflake.Epoch(rng.Uint64()), time.Duration(rng.Uint64())
		for _, field := range fields {
			*field = uint8(rng.Uint32())
		}
	}
	return l
}

func validLayout(rng *rand.Rand) snowflake.Layout {
	for {
		if l := anyLayout(rng); slowValid(l) {
			return l
		}
	}
}

// unusualLayouts are valid, but hardly.
var unusualLayouts = []snowflake.Layout{
	{Unit: 1, TimeBits: 1},
	{Unit: 1, TimeBits: 63},
	{Unit: time.Second, TimeBits: 60},
	{Unit: time.Hour, TimeBits: 48},
	{Unit: math.MaxInt64, TimeBits: 26},
	{Unit: (1<<31)*time.Second + 1, TimeBits: 29},
	{Unit: (1<<31)*time.Second + 1, TimeBits: 29, Epoch: math.MaxInt64},
	{Unit: (1<<31)*time.Second + 1, TimeBits: 29, Epoch: math.MinInt64},
	{Unit: 7 * time.Microsecond, TimeBits: 1, WorkerBits: widest, WorkerLast: true},
	{Unit: 1, TimeBits: 1, SequenceBits: widest},
	{Unit: 1, TimeBits: 1, ClockSeqBits: widest},
	{Unit: 1, TimeBits: 1, DatacenterBits: widest},
	{Unit: time.Millisecond, TimeBits: 41, Epoch: math.MinInt64},
	{Unit: time.Millisecond, TimeBits: 41, Epoch: math.MaxInt64},
}

const widest = min(62, strconv.IntSize-1) // the bits of an int without its sign

// anyID returns an ID that may or may not belong to the layout.
func anyID(rng *rand.Rand, l snowflake.Layout) snowflake.ID {
	switch id := snowflake.ID(rng.Uint64()); rng.IntN(4) {
	case 0:
		return id
	case 1:
		return id >> rng.IntN(64)
	case 2:
		return 1<<bitsOf(l) - 1 + snowflake.ID(rng.IntN(2))
	default:
		return id >> 1 & (1<<bitsOf(l) - 1)
	}
}

// beijing is a zone that does not matter.
var beijing = time.FixedZone("Beijing", 8*60*60)

// anyTime returns a time of the layout, or at its edge. If ticks are long, it is seldom the start
// of a tick.
func anyTime(rng *rand.Rand, l snowflake.Layout) time.Time {
	if rng.IntN(4) == 0 {
		edge := []time.Time{l.Epoch.Time(), l.Expires(), l.Expires().Add(-l.Unit), {}, time.Unix(1<<60, 0)}[rng.IntN(5)]
		return edge.Add(time.Duration(rng.IntN(3) - 1)).In(beijing)
	}
	tick := rng.Int64() >> rng.IntN(63) & (1<<l.TimeBits - 1)
	return slowTime(l, big.NewInt(tick)).Add(time.Duration(rng.Int64N(max(1, int64(l.Unit)))))
}

// anyParts returns parts, one of which may not fit.
func anyParts(rng *rand.Rand, l snowflake.Layout) snowflake.Parts {
	p := snowflake.Parts{Time: anyTime(rng, l)}
	for _, f := range slowFields(l, &p) {
		*f.value = int(rng.Int64() & (1<<f.bits - 1))
	}
	if f := slowFields(l, &p)[rng.IntN(4)]; rng.IntN(3) == 0 {
		*f.value = []int{-1, 1 << f.bits, math.MinInt, math.MaxInt}[rng.IntN(4)]
	}
	return p
}

func bitsOf(l snowflake.Layout) int {
	return int(l.TimeBits) + int(l.ClockSeqBits) + int(l.DatacenterBits) + int(l.WorkerBits) + int(l.SequenceBits)
}

func TestCodecMatchesTheSlowReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 20000 {
		l := anyLayout(rng)
		checkCodec(t, l, anyID(rng, l), anyParts(rng, l))
	}
	for _, l := range unusualLayouts {
		require.NoError(t, l.Validate(), "%v", l)
		for shift := range 64 {
			checkCodec(t, l, 1<<shift, lastParts(l))
			checkCodec(t, l, -1<<shift, lastParts(l))
		}
	}
}

// checkCodec compares the functions of a layout with the references.
func checkCodec(t *testing.T, l snowflake.Layout, id snowflake.ID, p snowflake.Parts) {
	t.Helper()
	valid := slowValid(l)
	require.Equal(t, valid, l.Validate() == nil, "%+v: %v", l, l.Validate())
	encoded, err := l.Encode(p)
	want, refusals := slowEncode(l, p)
	require.Equal(t, want, encoded, "%+v %+v", l, p)
	require.Equal(t, len(refusals) > 0, err != nil, "%+v %+v: %v", l, p, err)
	if err != nil {
		require.True(t, slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) || reflect.DeepEqual(err, r) }),
			"%+v %+v: %v is not among %v", l, p, err, refusals)
	} else {
		p.Time = slowTime(l, slowTick(l, p.Time))
		require.Equal(t, p, l.Decode(encoded), "%+v", l) // its time is in UTC
	}

	decoded, checked, expires := l.Decode(id), l.Check(id), l.Expires()
	_ = l.String()
	if !valid {
		return // it is enough that nothing panicked
	}
	require.Equal(t, slowTime(l, new(big.Int).Lsh(big.NewInt(1), uint(l.TimeBits))), expires, "%+v", l)
	parts, tick := slowDecode(l, id)
	if length := new(big.Int).Mul(tick, big.NewInt(int64(l.Unit))); length.CmpAbs(maxSpan) >= 0 {
		parts.Time = decoded.Time // cannot be represented
	}
	require.Equal(t, parts, decoded, "%+v %d", l, id)
	back, err := l.Encode(decoded)
	switch {
	case tick.Sign() < 0:
		require.True(t, decoded.Time.Before(l.Epoch.Time()), "%+v: %d decodes to %v", l, id, decoded)
		require.ErrorIs(t, err, snowflake.ErrBeforeEpoch)
	case tick.BitLen() > int(l.TimeBits):
		require.False(t, decoded.Time.Before(expires), "%+v: %d decodes to %v", l, id, decoded)
		require.ErrorIs(t, err, snowflake.ErrTimeExhausted)
	default:
		require.NoError(t, err, "%+v %d", l, id)
		require.Equal(t, id, back, "%+v", l)
	}
	if err == nil {
		require.NoError(t, checked)
	} else {
		require.ErrorIs(t, checked, snowflake.ErrInvalidID, "%+v %d", l, id)
	}
}

func TestRangeHoldsExactlyTheIDsOfItsTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	outcomes := map[error]int{}
	for range 5000 {
		l := validLayout(rng)
		from, to := anyTime(rng, l), anyTime(rng, l)
		if rng.IntN(2) == 0 {
			to = from.Add(time.Duration(rng.Int64N(int64(min(l.Unit, math.MaxInt64/8)) * 4)))
		}
		var want error
		switch last := l.Expires().Add(-l.Unit); {
		case to.Before(from):
			want = snowflake.ErrInvalidRange
		case from.Before(l.Epoch.Time()):
			want = snowflake.ErrBeforeEpoch
		case to.After(l.Expires()), bitsOf(l) == 63 && to.After(last):
			want = snowflake.ErrTimeExhausted
		}
		outcomes[want]++
		lo, hi, err := l.Range(from, to)
		require.ErrorIs(t, err, want, "%+v %v %v", l, from, to)
		if err != nil {
			require.Zero(t, lo|hi)
			continue
		}
		require.LessOrEqual(t, lo, hi)
		for _, id := range []snowflake.ID{
			0, lo - 1, lo, lo + 1, hi - 1, hi, hi + 1, lo + (hi-lo)/2, math.MaxInt64, anyID(rng, l),
			anyID(rng, l),
		} {
			if at := l.Decode(id).Time; l.Check(id) == nil {
				require.Equal(t, !at.Before(from) && at.Before(to), lo <= id && id < hi,
					"%+v: %d was stamped at %v, the range [%v, %v) is [%d, %d)", l, id, at, from, to, lo, hi)
			}
		}
	}
	for _, err := range []error{nil, snowflake.ErrInvalidRange, snowflake.ErrBeforeEpoch, snowflake.ErrTimeExhausted} {
		assert.Greater(t, outcomes[err], 50, "%v", err)
	}
}

func TestErrorsNameTheTimes(t *testing.T) {
	l := snowflake.DefaultLayout()
	epoch, end := l.Epoch.Time(), l.Expires()
	encode := func(at time.Time) error { _, err := l.Encode(snowflake.Parts{Time: at}); return err }
	between := func(from, to time.Time) error { _, _, err := l.Range(from, to); return err }
	for want, err := range map[string]error{
		"time before the epoch: 2025-12-31T23:59:59.999999999Z is before 2026-01-01T00:00:00.000Z":               encode(epoch.Add(-1)),
		"time before the epoch: 0001-01-01T00:00:00.000Z is before 2026-01-01T00:00:00.000Z":                     encode(time.Time{}),
		"time before the epoch: 2025-12-31T23:59:59.000Z is before 2026-01-01T00:00:00.000Z":                     between(epoch.Add(-time.Second), epoch),
		"layout has run out of time: it ended at 2095-09-07T15:47:35.552Z, the time is 2095-09-07T15:47:35.553Z": between(epoch, end.Add(time.Millisecond)),
		"layout has run out of time: it ended at 2095-09-07T15:47:35.552Z, the time is 2095-09-07T15:47:35.552Z": encode(end),
		"invalid range: from 2026-01-01T00:00:01.000Z is after to 2026-01-01T00:00:00.000Z":                      between(epoch.Add(time.Second), epoch),
	} {
		assert.EqualError(t, err, "snowflake: "+want)
	}
}

func FuzzDecodeEncode(f *testing.F) {
	add := func(l snowflake.Layout, id snowflake.ID, p snowflake.Parts) {
		f.Add(int64(l.Epoch), int64(l.Unit), l.TimeBits, l.ClockSeqBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits, l.WorkerLast,
			int64(id), p.Time.Unix(), int64(p.Time.Nanosecond()), int64(p.ClockSeq), int64(p.Datacenter),
			int64(p.Worker), int64(p.Sequence))
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
		// time.Time itself wraps at the end of its 292 billion years.
		p := snowflake.Parts{
			Time:     time.Unix(sec>>1, nsec>>1).UTC(),
			ClockSeq: int(clockSeq), Datacenter: int(datacenter), Worker: int(worker), Sequence: int(sequence),
		}
		checkCodec(t, l, snowflake.ID(id), p)
	})
}

// smallestAfter is the slow, obvious reference for Follows. It returns the smallest of all IDs of l
// whose tick has not ended at a time.
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

// If the new layout's epoch is in the future, its first ID is 0.
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
