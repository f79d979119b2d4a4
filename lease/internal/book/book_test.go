//go:build go1.25

package book

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// kept is a line to entries that are in memory.
type kept struct {
	Line
	entries map[string]driver.Entry
	refuses string // the beginning of the keys that cannot be saved
}

var errRefused = errors.New("down")

func (k kept) Get(key string) (driver.Entry, error) { return k.entries[key], nil }

func (k kept) Put(key, old string, value []byte) (driver.Entry, error) {
	switch {
	case k.refuses != "" && strings.HasPrefix(key, k.refuses):
		return driver.Entry{}, errRefused
	case k.entries[key].Version != old:
		return driver.Entry{}, driver.ErrConflict
	}
	k.entries[key] = driver.Entry{Key: key, Version: machine.RandomText(), Value: value}
	return k.entries[key], nil
}

// If a part of the history cannot be stored, the record is not saved without it.
func TestHistoryThatIsNotStoredIsAnError(t *testing.T) {
	s := kept{entries: map[string]driver.Entry{}, refuses: HistoryPrefix}
	for _, c := range []protocol.Chunks{{First: 0, Next: 1}, {First: 0, Next: 2}} {
		kept, _, err := spill(s, protocol.Record{History: protocol.History{Chunks: c}}, []protocol.Holding{{Token: "a"}}, time.Time{})
		require.ErrorIs(t, err, errRefused)
		require.Equal(t, c, kept.Chunks)
	}
}

// Holdings of several clock sequences do not end in the order in which they were replaced.
func TestHistoryKeepsHoldingThatEndsAfterTheLastOfItsChunk(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0).UTC() }
	s := kept{entries: map[string]driver.Entry{}}
	old := []protocol.Holding{{From: at(0), To: at(30), Token: "a"}, {ClockSeq: 1, From: at(1), To: at(10), Token: "b"}}
	value, err := json.Marshal(old)
	require.NoError(t, err)
	_, err = s.Put(ChunkKey(0, 0), "", value)
	require.NoError(t, err)
	r := protocol.Record{History: protocol.History{Chunks: protocol.Chunks{First: 0, Next: 2}}}
	kept, trimmed, err := spill(s, r, []protocol.Holding{{From: at(30), To: at(40), Token: "c"}}, at(20))
	require.NoError(t, err)
	assert.Equal(t, 0, kept.Chunks.First)
	assert.Empty(t, trimmed.Version)
	kept, trimmed, err = spill(s, r, []protocol.Holding{{From: at(30), To: at(40), Token: "c"}}, at(31))
	require.NoError(t, err)
	assert.Equal(t, 1, kept.Chunks.First)
	assert.NotEmpty(t, trimmed.Version)
}

// A process that saw a wait begin knows all of it, even if other processes have saved it since.
func TestThoseWhoTakeTurnsLoseNothingOfAWait(t *testing.T) {
	s, begun := newSightings(), time.Now()
	at := func(d time.Duration) protocol.Moment { return protocol.Moment{At: begun.Add(d)} }
	require.Zero(t, s.Lasts("key", "name", time.Second, at(0), time.Minute))
	require.Equal(t, 4*time.Second, s.Lasts("key", "name", 2*time.Second, at(5*time.Second), time.Minute))
	require.Equal(t, 4*time.Second, s.Lasts("key", "name", 3*time.Second, at(6*time.Second), time.Minute))
	require.Zero(t, s.Lasts("key", "name", 9*time.Second, at(6*time.Second), time.Minute), "another one knows more")
	require.Equal(t, time.Second, s.Lasts("key", "name", 9*time.Second, at(7*time.Second), time.Minute))
	require.Zero(t, s.Lasts("key", "name", 0, at(68*time.Second), time.Minute), "nobody looked for too long")
	require.Zero(t, s.Lasts("key", "another", 0, at(69*time.Second), time.Minute), "it was lost again")
	for _, test := range []struct{ look, since int }{{0, 0}, {60, 0}, {121, 121}, {122, 121}} {
		s.Sees("record", "version", begun.Add(time.Duration(test.look)*time.Second), time.Minute)
		require.Equal(t, begun.Add(time.Duration(test.since)*time.Second), s.Last("record").Since)
	}
}

// One clock that is wrong makes no live holder look dead.
func TestEnginesClockAloneTakesNobodyForDead(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0).UTC() }
	r := protocol.Record{State: protocol.StateHeld, Holder: protocol.Holder{WindowLength: 3 * time.Second}, Layout: snowflake.DefaultLayout(),
		Bounds: []time.Time{at(3)}, From: at(0), Renewed: at(0), Version: "5"}
	for _, test := range []struct {
		own, engine int
		dead        bool
	}{{1, 1, false}, {1, 3600, false}, {3600, 1, false}, {3, 3, false}, {3, 4, true}, {3600, 3600, true}} {
		w := Watch{Seen: newSightings()}
		silent := w.Silent(r, ThisMoment(), protocol.Clocks{Own: at(test.own), Engine: at(test.engine)})
		assert.Equal(t, !test.dead, r.Live(silent), "%+v", test)
	}
}

// A process remembers what it has seen of the stores that it opened last.
func TestStoresThatAreRememberedAreBounded(t *testing.T) {
	type store struct {
		driver.Store
		n int
	}
	defer func(old int) { MaxStores = old }(MaxStores)
	MaxStores = 8
	first := seenOf(store{n: 0})
	assert.Same(t, first, seenOf(store{n: 0}))
	for n := range MaxStores + 2 {
		seenOf(store{n: 1 + n})
	}
	require.Len(t, remembered.stores, MaxStores)
	assert.NotSame(t, first, seenOf(store{n: 0}))
}
