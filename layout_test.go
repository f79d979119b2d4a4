package snowflake_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// The presets, spelled out: if one of these numbers changed, stored IDs would change
// their meaning. expires is the epoch plus 2^TimeBits units in milliseconds, by
// hand, and its date by another program.
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
			"time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z",
		},
		{
			snowflake.ClockSeqLayout(), snowflake.Layout{Epoch: 1767225600000, Unit: 1e6, TimeBits: 41, ClockSeqBits: 3, WorkerBits: 7, SequenceBits: 12},
			1767225600000 + 2199023255552, "2095-09-07T15:47:35.552Z", math.MaxInt64,
			"time=41 clockseq=3 worker=7 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z",
		},
		{
			snowflake.JSSafeLayout(), snowflake.Layout{Epoch: 1767225600000, Unit: 1e9, TimeBits: 33, WorkerBits: 4, SequenceBits: 15},
			1767225600000 + 8589934592*1000, "2298-03-16T12:56:32Z", 1<<52 - 1, // JavaScript's numbers hold integers up to 2^53 - 1
			"time=33 worker=4 sequence=15 unit=1s epoch=2026-01-01T00:00:00.000Z",
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
		"unit 0s is not positive":                         {},
		"unit -1ms is not positive":                       {Unit: -time.Millisecond, TimeBits: 41},
		"no time bits":                                    {Unit: 1, WorkerBits: 5},
		"64 bits in all, an ID has 63":                    {Unit: 1, TimeBits: 41, WorkerBits: 11, SequenceBits: 12},
		"256 bits in all, an ID has 63":                   {Unit: 1, TimeBits: 128, SequenceBits: 128}, // 0 as a sum of uint8
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

func TestLayoutStringNamesTheFieldsFromHighToLow(t *testing.T) {
	l := snowflake.Layout{Epoch: -1, Unit: 7 * time.Microsecond, TimeBits: 40, ClockSeqBits: 1, DatacenterBits: 2, WorkerBits: 3, SequenceBits: 4}
	assert.Equal(t, "time=40 clockseq=1 datacenter=2 worker=3 sequence=4 unit=7µs epoch=1969-12-31T23:59:59.999Z", l.String())
	l.WorkerLast = true
	assert.Equal(t, "time=40 clockseq=1 datacenter=2 sequence=4 worker=3 unit=7µs epoch=1969-12-31T23:59:59.999Z", l.String())
	assert.Equal(t, "time=0 unit=0s epoch=1970-01-01T00:00:00.000Z", fmt.Sprint(snowflake.Layout{}))
}
