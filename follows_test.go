package snowflake_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

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

func TestFollows(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	named := map[string]snowflake.Layout{
		"default": snowflake.DefaultLayout(), "bwmarrin": layouts.Bwmarrin(), "twitter": layouts.Twitter(),
		"sonyflake": layouts.Sonyflake(), "sonyflake-v2": layouts.SonyflakeV2(), "redis": layouts.Redis(),
	}
	for _, test := range []struct {
		old, new string
		follows  bool
	}{
		{"default", "default", true},
		{"bwmarrin", "bwmarrin", true},
		{"bwmarrin", "twitter", true},
		{"twitter", "bwmarrin", true},
		{"bwmarrin", "default", false},
		{"default", "bwmarrin", true},
		{"sonyflake", "default", false},
		{"sonyflake", "sonyflake-v2", false},
		{"sonyflake-v2", "sonyflake", true},
		{"sonyflake", "bwmarrin", true},
		{"bwmarrin", "redis", true},
	} {
		old := named[test.old]
		last, err := old.Encode(snowflake.Parts{Time: at, Worker: 5, Sequence: 1<<old.SequenceBits - 1})
		require.NoError(t, err)
		err = named[test.new].Follows(old, last)
		assert.Equal(t, test.follows, err == nil, "%s after %s: %v", test.new, test.old, err)
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
