//go:build go1.25

package lease

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Programs of this release and of later ones share a store. If this test fails, they no longer read
// each other's records: keep the names, or read the old ones, too.
func TestStoredRecordsKeepTheirForm(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 4, 5, 6, s, 7_000_000, time.UTC) }
	r := protocol.Record{
		Worker: 7, Saves: 9, State: StateHeld, Layout: both, Marked: true,
		Holder: protocol.Holder{Token: "t2", Owner: "b", Host: "h", PID: 12, Reuse: ReuseKeep,
			Window: 3 * time.Second, FloorEvery: time.Second, Store: "s", Offline: true},
		History: protocol.History{Ended: []protocol.Holding{{Worker: 7, From: at(2), To: at(10), Token: "t1", Owner: "a", Host: "g", PID: 11}},
			Chunks: protocol.Chunks{First: 1, Next: 2}, Forgotten: at(2)},
		Bounds: []time.Time{at(10), at(40)}, Floor: at(1), ClockSeq: 1, From: at(20),
		Waited: protocol.Waited{For: time.Second, Host: "h", Boot: time.Minute, Wall: 5, Name: "n"},
		Least:  at(21), NoFloor: true, To: at(40), Prior: protocol.Prior{Least: at(3), To: at(10)}, Renewed: at(37),
		Version: "v",
	}
	const file = "testdata/record.json"
	stored, err := os.ReadFile(file)
	require.NoError(t, err)
	read, err := protocol.DecodeRecord(7, Entry{Version: "v", Value: stored, Time: at(37)})
	require.NoError(t, err)
	require.Equal(t, r, read)
	value, err := r.Encode()
	require.NoError(t, err)
	require.JSONEq(t, string(stored), string(value))
}
