package zklease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// The store asked the server 50 ms ago, and the answer came 20 ms ago.
func TestLatestIsTheLatestKnownTimeOfTheServer(t *testing.T) {
	told := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		renewed []time.Duration // after the time that the server told
		now     time.Duration
	}{
		"no records":                            {nil, 20 * ms},
		"renewed before":                        {[]time.Duration{-time.Hour, 19 * ms}, 20 * ms},
		"renewed before the answer came":        {[]time.Duration{30 * ms, -time.Second, 25 * ms}, 30 * ms},
		"renewed just now":                      {[]time.Duration{50 * ms}, 50 * ms},
		"the clock was ahead by under a window": {[]time.Duration{time.Second, 30 * ms}, 30 * ms},
		"the clock was ahead by an hour":        {[]time.Duration{time.Hour}, 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []lease.State{lease.Held, lease.Free, lease.Spent} {
				var records []lease.Record
				for _, after := range test.renewed {
					records = append(records, lease.Record{State: state, Window: 3 * time.Second, Renewed: told.Add(after)})
				}
				now := latest(told, 50*ms, 20*ms, records)
				require.Equal(t, test.now, now.Sub(told))
			}
		})
	}
}

// If the clock was ahead, a record may have a time in the future. It does not make live holders look dead.
func TestClockThatWasAheadLeavesLiveHoldersAlive(t *testing.T) {
	told := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	held := func(after time.Duration) lease.Record {
		return lease.Record{State: lease.Held, Window: 3 * time.Second, Renewed: told.Add(after)}
	}
	for _, ahead := range []time.Duration{2 * time.Second, time.Hour} {
		records := []lease.Record{held(ahead), held(-time.Second), held(-2 * time.Second)}
		now := latest(told, 50*time.Millisecond, 20*time.Millisecond, records)
		require.True(t, records[1].Live(now))
		require.True(t, records[2].Live(now))
	}
}
