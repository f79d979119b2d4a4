package snowflake_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// The presets, spelled out: if one of these numbers changed, stored IDs would change
// their meaning. expires is the epoch plus 2^TimeBits units in milliseconds, by
// hand, and its date by another program.
var presets = []struct {
	name      string
	layout    snowflake.Layout
	want      snowflake.Layout
	expires   string
	expiresMs int64
	text      string
}{
	{
		"default", snowflake.DefaultLayout(),
		snowflake.Layout{Epoch: 1767225600000, Unit: 1e6, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		"2095-09-07T15:47:35.552Z", 1767225600000 + 2199023255552,
		"time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z",
	},
	{
		"clock sequence", snowflake.ClockSeqLayout(),
		snowflake.Layout{Epoch: 1767225600000, Unit: 1e6, TimeBits: 41, ClockSeqBits: 3, WorkerBits: 7, SequenceBits: 12},
		"2095-09-07T15:47:35.552Z", 1767225600000 + 2199023255552,
		"time=41 clockseq=3 worker=7 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z",
	},
	{
		"JavaScript-safe", snowflake.JSSafeLayout(),
		snowflake.Layout{Epoch: 1767225600000, Unit: 1e9, TimeBits: 33, WorkerBits: 4, SequenceBits: 15},
		"2298-03-16T12:56:32Z", 1767225600000 + 8589934592*1000,
		"time=33 worker=4 sequence=15 unit=1s epoch=2026-01-01T00:00:00.000Z",
	},
}

func TestPresetsNeverChange(t *testing.T) {
	for _, p := range presets {
		t.Run(p.name, func(t *testing.T) {
			require.NoError(t, p.layout.Validate())
			assert.Equal(t, p.want, p.layout)
			assert.Equal(t, p.expires, p.layout.Expires().Format(time.RFC3339Nano))
			assert.Equal(t, p.expiresMs, p.layout.Expires().UnixMilli())
			assert.Equal(t, time.UTC, p.layout.Expires().Location())
			assert.Equal(t, p.text, p.layout.String())
		})
	}
}

// lastParts are the parts of a layout's last ID.
func lastParts(l snowflake.Layout) snowflake.Parts {
	return snowflake.Parts{
		Time:       l.Expires().Add(-l.Unit),
		ClockSeq:   1<<l.ClockSeqBits - 1,
		Datacenter: 1<<l.DatacenterBits - 1,
		Worker:     1<<l.WorkerBits - 1,
		Sequence:   1<<l.SequenceBits - 1,
	}
}

func TestLastIDOfEachPreset(t *testing.T) {
	want := map[string]snowflake.ID{
		"JavaScript-safe": 1<<52 - 1, // well under JavaScript's limit
		"default":         math.MaxInt64,
		"clock sequence":  math.MaxInt64,
	}
	for _, p := range presets {
		last, err := p.layout.Encode(lastParts(p.layout))
		require.NoError(t, err, p.name)
		assert.Equal(t, want[p.name], last, p.name)
	}
}

func TestValidateRefuses(t *testing.T) {
	with := func(change func(*snowflake.Layout)) snowflake.Layout {
		l := snowflake.DefaultLayout()
		change(&l)
		return l
	}
	tests := []struct {
		name   string
		layout snowflake.Layout
		want   string
	}{
		{"the zero layout", snowflake.Layout{}, "unit 0s is not positive"},
		{"no unit", with(func(l *snowflake.Layout) { l.Unit = 0 }), "unit 0s is not positive"},
		{"a negative unit", with(func(l *snowflake.Layout) { l.Unit = -time.Millisecond }), "unit -1ms is not positive"},
		{"the most negative unit", with(func(l *snowflake.Layout) { l.Unit = math.MinInt64 }), "unit -2562047h47m16.854775808s is not positive"},
		{"no time bits", with(func(l *snowflake.Layout) { l.TimeBits = 0 }), "no time bits"},
		{"64 bits: time", with(func(l *snowflake.Layout) { l.TimeBits++ }), "64 bits in all, an ID has 63"},
		{"64 bits: clock sequence", with(func(l *snowflake.Layout) { l.ClockSeqBits++ }), "64 bits in all, an ID has 63"},
		{"64 bits: datacenter", with(func(l *snowflake.Layout) { l.DatacenterBits++ }), "64 bits in all, an ID has 63"},
		{"64 bits: worker", with(func(l *snowflake.Layout) { l.WorkerBits++ }), "64 bits in all, an ID has 63"},
		{"64 bits: sequence", with(func(l *snowflake.Layout) { l.SequenceBits++ }), "64 bits in all, an ID has 63"},
		{"64 bits with the worker last", with(func(l *snowflake.Layout) { l.WorkerLast = true; l.WorkerBits++ }), "64 bits in all, an ID has 63"},
		{"64 time bits and nothing else", snowflake.Layout{Unit: 1, TimeBits: 64}, "64 bits in all, an ID has 63"},
		{"255 in each", snowflake.Layout{Unit: 1, TimeBits: 255, ClockSeqBits: 255, DatacenterBits: 255, WorkerBits: 255, SequenceBits: 255}, "1275 bits in all, an ID has 63"},
		// As a sum of uint8 these would have wrapped: to 0, to 63, to 41.
		{"256 bits of two", snowflake.Layout{Unit: 1, TimeBits: 128, SequenceBits: 128}, "256 bits in all, an ID has 63"},
		{"319 bits", snowflake.Layout{Unit: 1e6, TimeBits: 41, ClockSeqBits: 255, DatacenterBits: 1, WorkerBits: 10, SequenceBits: 12}, "319 bits in all, an ID has 63"},
		{"297 bits", snowflake.Layout{Unit: 1e6, TimeBits: 41, WorkerBits: 128, SequenceBits: 128}, "297 bits in all, an ID has 63"},
		{"time longer than a time.Time", snowflake.Layout{Unit: time.Hour, TimeBits: 63}, "63 bits of 1h0m0s last longer than 36 billion years"},
		{"61 bits of seconds", snowflake.Layout{Unit: time.Second, TimeBits: 61}, "61 bits of 1s last longer than 36 billion years"},
		{"50 bits of hours", snowflake.Layout{Unit: time.Hour, TimeBits: 50}, "50 bits of 1h0m0s last longer than 36 billion years"},
		{"63 bits of the longest unit", snowflake.Layout{Unit: math.MaxInt64, TimeBits: 63}, "63 bits of 2562047h47m16.854775807s last longer than 36 billion years"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.layout.Validate()
			require.ErrorIs(t, err, snowflake.ErrInvalidLayout)
			assert.EqualError(t, err, "snowflake: invalid layout: "+tt.want)

			// All functions that take a layout and return an error refuse it.
			_, err = tt.layout.Encode(snowflake.Parts{Time: tt.layout.Epoch.Time()})
			require.ErrorIs(t, err, snowflake.ErrInvalidLayout)
			_, _, err = tt.layout.Range(tt.layout.Epoch.Time(), tt.layout.Epoch.Time())
			require.ErrorIs(t, err, snowflake.ErrInvalidLayout)

			// Methods that return no error do not panic.
			_ = tt.layout.String()
			_ = tt.layout.Expires()
			_ = tt.layout.Check(1)
		})
	}
}

func TestValidateAcceptsUnusualLayouts(t *testing.T) {
	const widest = min(62, strconv.IntSize-1) // what an int holds
	for _, l := range []snowflake.Layout{
		{Unit: 1, TimeBits: 1},
		{Unit: 1, TimeBits: 63},
		{Unit: time.Second, TimeBits: 60},
		{Unit: time.Hour, TimeBits: 48},
		{Unit: math.MaxInt64, TimeBits: 26},
		{Unit: 3 * time.Millisecond, TimeBits: 40, SequenceBits: 23},
		{Unit: 7 * time.Microsecond, TimeBits: 1, WorkerBits: widest, WorkerLast: true},
		{Unit: 1, TimeBits: 1, SequenceBits: widest},
		{Unit: 1, TimeBits: 1, ClockSeqBits: widest},
		{Unit: 1, TimeBits: 1, DatacenterBits: widest},
		{Epoch: math.MinInt64, Unit: time.Millisecond, TimeBits: 41},
		{Epoch: math.MaxInt64, Unit: time.Millisecond, TimeBits: 41},
	} {
		require.NoError(t, l.Validate(), "%v", l)
		last, err := l.Encode(lastParts(l))
		require.NoError(t, err, "%v", l)
		require.Equal(t, lastParts(l), l.Decode(last), "%v", l)
	}
}

func TestExpiresIsTheFirstInstantThatCannotBeStamped(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		l := randomLayout(rng)
		end := new(big.Int).Lsh(big.NewInt(1), uint(l.TimeBits))
		require.Equal(t, slowTime(l, end), l.Expires(), "%+v", l)

		id, err := l.Encode(snowflake.Parts{Time: l.Expires().Add(-1)})
		require.NoError(t, err, "%+v", l)
		require.Equal(t, l.Expires().Add(-l.Unit), l.Decode(id).Time, "%+v", l)
		_, err = l.Encode(snowflake.Parts{Time: l.Expires()})
		require.ErrorIs(t, err, snowflake.ErrTimeExhausted, "%+v", l)
	}
}

// window is a lease that stays as it is.
type window [2]time.Time

func (w window) Grant() snowflake.Grant { return snowflake.Grant{From: w[0], To: w[1]} }

// If all 63 bits are time, an int64 cannot hold the tick after the last one.
func TestLeaseMayEndInTheLastTickOf63Bits(t *testing.T) {
	l := snowflake.Layout{Unit: 7, TimeBits: 63}
	now := l.Epoch.Time().Add(time.Hour)
	for _, end := range []time.Time{now.Add(time.Hour), l.Expires().Add(-7), l.Expires().Add(-1), l.Expires(), l.Expires().Add(1)} {
		g, err := snowflake.NewLeased(window{l.Epoch.Time(), end}, &snowflake.Options{
			Layout: l, Clock: snowflake.ClockFunc(func() time.Time { return now }),
		})
		require.NoError(t, err)
		id, err := g.NextID()
		require.NoError(t, err, "%v", end)
		require.Equal(t, snowflake.ID(time.Hour/7), id)
	}
}

func TestCheckRefusesNegativeIDsAndExcessBits(t *testing.T) {
	tests := []struct {
		layout snowflake.Layout
		id     snowflake.ID
		want   string // "": it passes
	}{
		{snowflake.DefaultLayout(), 0, ""},
		{snowflake.DefaultLayout(), math.MaxInt64, ""},
		{snowflake.DefaultLayout(), -1, "-1 is negative"},
		{snowflake.DefaultLayout(), math.MinInt64, "-9223372036854775808 is negative"},
		{snowflake.JSSafeLayout(), 1<<52 - 1, ""},
		{snowflake.JSSafeLayout(), 1 << 52, "4503599627370496 has 53 bits, the layout 52"},
		{snowflake.JSSafeLayout(), math.MaxInt64, "9223372036854775807 has 63 bits, the layout 52"},
		{snowflake.Layout{Unit: 1, TimeBits: 1}, 1, ""},
		{snowflake.Layout{Unit: 1, TimeBits: 1}, 2, "2 has 2 bits, the layout 1"},
	}
	for _, tt := range tests {
		err := tt.layout.Check(tt.id)
		if tt.want == "" {
			assert.NoError(t, err, "%d", tt.id)
			continue
		}
		assert.ErrorIs(t, err, snowflake.ErrInvalidID)
		assert.EqualError(t, err, "snowflake: invalid ID: "+tt.want)
	}
}

func TestLayoutStringNamesTheFieldsFromHighToLow(t *testing.T) {
	l := snowflake.Layout{Epoch: -1, Unit: 7 * time.Microsecond, TimeBits: 40, ClockSeqBits: 1, DatacenterBits: 2, WorkerBits: 3, SequenceBits: 4}
	assert.Equal(t, "time=40 clockseq=1 datacenter=2 worker=3 sequence=4 unit=7µs epoch=1969-12-31T23:59:59.999Z", l.String())
	l.WorkerLast = true
	assert.Equal(t, "time=40 clockseq=1 datacenter=2 sequence=4 worker=3 unit=7µs epoch=1969-12-31T23:59:59.999Z", l.String())
	assert.Equal(t, "time=0 unit=0s epoch=1970-01-01T00:00:00.000Z", fmt.Sprint(snowflake.Layout{}))
}

func TestValidateMatchesTheSlowReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	valid := 0
	for range 50000 {
		l := anyLayout(rng)
		want := slowValid(l)
		require.Equal(t, want, l.Validate() == nil, "%+v: %v", l, l.Validate())
		if want {
			valid++
		}
	}
	assert.Greater(t, valid, 1000)
}
