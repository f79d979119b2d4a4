//go:build go1.25

package lease

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Programs of this release and of later ones share a store. If this test fails, they no longer read
// each other's records: keep the names, or read the old ones, too.
func TestStoredRecordsKeepTheirForm(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 4, 5, 6, s, 7_000_000, time.UTC) }
	r := protocol.Record{
		Worker: 7, Saves: 9, State: StateHeld, Layout: both, Marked: true,
		Holder: protocol.Holder{Token: "t2", Owner: "b", Host: "h", PID: 12, Reuse: ReuseKeep,
			WindowLength: 3 * time.Second, FloorEvery: time.Second, Store: "s", Offline: true},
		History: protocol.History{Ended: []protocol.Holding{{Worker: 7, From: at(2), To: at(10), Token: "t1", Owner: "a", Host: "g", PID: 11}},
			Chunks: protocol.Chunks{First: 1, Next: 2}, Forgotten: at(2)},
		Bounds: []time.Time{at(10), at(40)}, NotBefore: at(1), ClockSeq: 1, From: at(20),
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

// The same holds of the other entries that programs share.
func TestOtherEntriesKeepTheirForm(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	waited := protocol.Waited{For: time.Second, Host: "h", Boot: time.Minute, Wall: 5, Name: "n"}
	keepsForm(t, `{"name": "s", "layout": {"epochMillis": 0, "unitNanos": 1000000, "timeBits": 41, "clockSeqBits": 2,
		"datacenterBits": 0, "workerBits": 8, "sequenceBits": 4, "workerLast": false}, "open": true, "watermarked": true,
		"waited": {"for": 1000000000, "host": "h", "boot": 60000000000, "wall": 5, "name": "n"}, "whole": 3000000000,
		"opened": "2026-03-04T05:06:07.008Z", "healed": true, "notBefore": "2026-03-04T05:06:07.008Z", "trace": "f"}`,
		protocol.Door{Name: "s", Layout: both, Open: true, Waited: waited, Watermarked: true,
			Whole: 3 * time.Second, Opened: at, Healed: true, NotBefore: at, Trace: "f"})
	keepsForm(t, `{"proposed": "2026-03-04T05:06:07.008Z", "published": "2026-03-04T05:06:07.008Z"}`,
		protocol.Watermark{Proposed: at, Published: at})
	keepsForm(t, `{"of": {"worker/7": {"version": "v",
		"waited": {"for": 1000000000, "host": "h", "boot": 60000000000, "wall": 5, "name": "n"}}}}`,
		book.Silences{Of: map[string]book.Unchanged{"worker/7": {Version: "v", Waited: waited}}})
}

func keepsForm[T any](t *testing.T, stored string, want T) {
	t.Helper()
	var read T
	require.NoError(t, json.Unmarshal([]byte(stored), &read))
	require.Equal(t, want, read)
	value, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, stored, string(value))
}
