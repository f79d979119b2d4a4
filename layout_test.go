package snowflake_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// The presets, spelled out: if one of these numbers changed, stored IDs would change their meaning.
// expires is the epoch plus 2^TimeBits units in milliseconds, calculated by hand, and its date by
// another program.
func TestPresetsNeverChange(t *testing.T) {
	for _, p := range []struct {
		layout, want snowflake.Layout
		expiresMs    int64
		expires      string
		last         snowflake.ID
		text         string
	}{
		{
			snowflake.DefaultLayout(), snowflake.Layout{Epoch: 1767225600000, Unit: 1e6, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
			1767225600000 + 2199023255552, "2095-09-07T15:47:35.552Z", math.MaxInt64,
			"41/10/12@2026-01-01,1ms",
		},
		{
			snowflake.ClockSeqLayout(),
			snowflake.Layout{Epoch: 1767225600000, Unit: 1e6, TimeBits: 41, ClockSeqBits: 3, WorkerBits: 7, SequenceBits: 12},
			1767225600000 + 2199023255552, "2095-09-07T15:47:35.552Z", math.MaxInt64,
			"41/3/7/12@2026-01-01,1ms",
		},
		{
			snowflake.JSSafeLayout(), snowflake.Layout{Epoch: 1767225600000, Unit: 1e9, TimeBits: 33, WorkerBits: 4, SequenceBits: 15},
			// JavaScript's numbers hold integers up to 2^53 - 1.
			1767225600000 + 8589934592*1000, "2298-03-16T12:56:32Z", 1<<52 - 1,
			"33/4/15@2026-01-01,1s",
		},
	} {
		require.NoError(t, p.layout.Validate())
		assert.Equal(t, p.want, p.layout)
		assert.Equal(t, p.expires, p.layout.Expires().Format(time.RFC3339Nano))
		assert.Equal(t, time.UnixMilli(p.expiresMs).UTC(), p.layout.Expires())
		assert.Equal(t, p.text, p.layout.String())
		last, err := p.layout.Encode(lastParts(p.layout))
		require.NoError(t, err)
		assert.Equal(t, p.last, last)
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

func TestValidateSaysWhatIsWrong(t *testing.T) {
	for want, l := range map[string]snowflake.Layout{
		"unit 0s is not positive":      {},
		"unit -1ms is not positive":    {Unit: -time.Millisecond, TimeBits: 41},
		"no time bits":                 {Unit: 1, WorkerBits: 5},
		"64 bits in all, an ID has 63": {Unit: 1, TimeBits: 41, WorkerBits: 11, SequenceBits: 12},
		// The sum overflows a uint8 to 0.
		"256 bits in all, an ID has 63":                   {Unit: 1, TimeBits: 128, SequenceBits: 128},
		"61 bits of 1s last longer than 36 billion years": {Unit: time.Second, TimeBits: 61},
	} {
		want = "snowflake: invalid layout: " + want
		assert.EqualError(t, l.Validate(), want)
		_, err := l.Encode(snowflake.Parts{Time: l.Epoch.Time()})
		assert.EqualError(t, err, want)
		_, _, err = l.Range(l.Epoch.Time(), l.Epoch.Time())
		assert.EqualError(t, err, want)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for want, err := range map[string]error{
		"-9223372036854775808 is negative":            snowflake.DefaultLayout().Check(math.MinInt64),
		"4503599627370496 has 53 bits, the layout 52": snowflake.JSSafeLayout().Check(1 << 52),
	} {
		assert.EqualError(t, err, "snowflake: invalid ID: "+want)
	}
}

func TestLayoutString(t *testing.T) {
	l := snowflake.Layout{Epoch: -1, Unit: 7 * time.Microsecond, TimeBits: 40, ClockSeqBits: 1,
		DatacenterBits: 2, WorkerBits: 3, SequenceBits: 4}
	assert.Equal(t, "40/1/2/3/4@1969-12-31T23:59:59.999Z,7µs", l.String())
	l.WorkerLast, l.ClockSeqBits = true, 0
	assert.Equal(t, "40/0/2/3/4@1969-12-31T23:59:59.999Z,7µs,worker-last", l.String())
	assert.Equal(t, "0/0/0@1970-01-01,0s", fmt.Sprint(snowflake.Layout{}))
}

func TestParseLayoutRefusesOtherForms(t *testing.T) {
	for text, says := range map[string]string{
		"": `"": want fields, an epoch and a unit, as in 41/10/12@2026-01-01,1ms`, "default": "want fields", "41/10/12": "want fields",
		"41/10/12@2026-01-01": "want fields", "41/10@2026-01-01,1ms": "2 fields", "1/1/1/1/1/1@2026-01-01,1ms": "6 fields",
		"41//12@2026-01-01,1ms": `"" is not a number of bits`, "41/-1/12@2026-01-01,1ms": `"-1"`, "41/256/12@2026-01-01,1ms": `"256"`,
		"41/10/12@today,1ms": `"today" is not an epoch`, "41/10/12@2026-01-01,1": `"1" is not a unit`,
		"41/10/12@2026-01-01,":         `"" is not a unit`,
		"41/10/12@2026-01-01,1ms,last": `"1ms,last" is not a unit`,
		"41/11/12@2026-01-01,1ms":      "64 bits in all", "41/10/12@2026-01-01,-1ms": "not positive",
		"0/10/12@2026-01-01,1ms": "no time bits",
		// These are layouts, in other forms.
		"041/10/12@2026-01-01,1ms":                 "is not in the usual form, 41/10/12@2026-01-01,1ms",
		"41/0/10/12@2026-01-01,1ms":                "is not in the usual form, 41/10/12@2026-01-01,1ms",
		"41/10/12@2026-01-01T00:00:00Z,1ms":        "is not in the usual form, 41/10/12@2026-01-01,1ms",
		"41/10/12@2026-01-01T01:00:00+01:00,1ms":   "is not in the usual form, 41/10/12@2026-01-01,1ms",
		"41/10/12@2026-01-01T00:00:00.000001Z,1ms": "is not in the usual form, 41/10/12@2026-01-01,1ms",
		"41/10/12@2026,1ms":                        "is not in the usual form, 41/10/12@1970-01-01T00:00:02.026Z,1ms",
		"41/10/12@2026-01-01,1000us":               "is not in the usual form, 41/10/12@2026-01-01,1ms",
	} {
		l, err := snowflake.ParseLayout(text)
		assert.Zero(t, l)
		require.ErrorIs(t, err, snowflake.ErrInvalidLayout, text)
		assert.ErrorContains(t, err, says, text)
	}
}

// ParseLayout reads only what String writes.
func FuzzParseLayout(f *testing.F) {
	for _, l := range []snowflake.Layout{snowflake.DefaultLayout(), snowflake.ClockSeqLayout(), snowflake.JSSafeLayout()} {
		f.Add(l.String())
	}
	f.Add("39/16/8@2014-09-01,10ms,worker-last")
	f.Add("40/0/2/3/4@300000000000000,1h0m0.5s")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := snowflake.ParseLayout(text)
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrInvalidLayout)
			return
		}
		require.NoError(t, l.Validate())
		require.Equal(t, text, l.String())
	})
}

// A valid layout survives the round trip through its text.
func FuzzLayoutString(f *testing.F) {
	f.Add(int64(snowflake.DefaultEpoch), int64(time.Millisecond), uint8(41), uint8(0), uint8(0), uint8(10), uint8(12), false)
	f.Add(int64(-1), int64(1), uint8(1), uint8(1), uint8(0), uint8(0), uint8(0), true)
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), uint8(1), uint8(0), uint8(1), uint8(1), uint8(1), true)
	f.Add(int64(math.MaxInt64), int64(1500), uint8(63), uint8(0), uint8(0), uint8(0), uint8(0), false)
	f.Add(int64(253402300800000), int64(90*time.Minute), uint8(30), uint8(7), uint8(9), uint8(9), uint8(8), false)
	f.Add(int64(-62167219200001), int64(999999999), uint8(30), uint8(0), uint8(9), uint8(9), uint8(8), true)
	f.Fuzz(func(t *testing.T, epoch, unit int64, times, clockSeqs, datacenters, workers, sequences uint8, last bool) {
		l := snowflake.Layout{snowflake.Epoch(epoch), time.Duration(unit), times % 64, clockSeqs % 64,
			datacenters % 64, workers % 64, sequences % 64, last}
		if l.Validate() != nil {
			return
		}
		got, err := snowflake.ParseLayout(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got)
	})
}

// JSON says in which units the epoch and the tick are.
func TestLayoutAsJSON(t *testing.T) {
	b, err := json.Marshal(snowflake.DefaultLayout())
	require.NoError(t, err)
	assert.JSONEq(t, `{"epochMillis": 1767225600000, "unitNanos": 1000000, "timeBits": 41, "clockSeqBits": 0,
		"datacenterBits": 0, "workerBits": 10, "sequenceBits": 12, "workerLast": false}`, string(b))
}
