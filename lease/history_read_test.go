//go:build go1.25

package lease

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// meanwhile calls f before the first list of a prefix.
func meanwhile(prefix string, f func()) fault {
	done := false
	return func(ctx context.Context, q *query, next asks) error {
		if !done && q.do == "list" && strings.HasPrefix(q.key, prefix) {
			done = true
			f()
		}
		return next(ctx, q)
	}
}

// If a chunk is trimmed while the store is read, no ID whose holding is still kept counts as never
// issued or as forgotten.
func TestHistoryThatIsTrimmedMeanwhile(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		ids := stamps(t, m, 4*protocol.MaxEnded, time.Hour)
		m.becomes(meanwhile(book.HistoryPrefix, func() {
			m.becomes()
			ids = append(ids, stamps(t, m, 3*protocol.MaxEnded, 2*protocol.MaxEnded*time.Second)...)
		}))
		h, err := ReadHistory(t.Context(), m)
		require.NoError(t, err)
		require.Positive(t, m.record(0).Chunks.First)
		for i, id := range ids {
			_, err := h.Whois(id)
			if i >= len(ids)-protocol.MaxEnded {
				require.NoError(t, err)
			}
			require.NotErrorIs(t, err, ErrNeverIssued)
		}
	})
}

// A store that loses its entries while they are listed says so.
func TestHistoryOfAStoreThatLosesItsEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := ReadHistory(t.Context(), newMemory())
		require.ErrorIs(t, err, ErrWiped)

		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0))
		id, err := h.g.NextID()
		require.NoError(t, err)
		gone := mustAcquire(t, m, fleet, clockAt(0), named("gone"))
		lost, err := gone.g.NextID()
		require.NoError(t, err)
		require.NoError(t, gone.Release(t.Context()))
		m.becomes(meanwhile(book.RecordPrefix, func() { m.set(func() { clear(m.entries) }) }))
		_, err = ReadHistory(t.Context(), m)
		require.ErrorIs(t, err, ErrWiped)
		_, err = Whois(t.Context(), m, lost)
		require.ErrorIs(t, err, ErrForgotten)
		m.becomes()

		time.Sleep(span) // the holder puts its record back, and newcomers wait
		for _, healed := range []bool{false, true} {
			d, err := book.GetDoor(m.line())
			require.NoError(t, err)
			require.Equal(t, healed, d.Open)
			past, err := ReadHistory(t.Context(), m)
			require.NoError(t, err)
			_, err = past.Whois(id)
			require.NoError(t, err)
			_, err = past.Whois(lost)
			require.ErrorIs(t, err, ErrForgotten)
			_, err = Whois(t.Context(), m, lost)
			require.ErrorIs(t, err, ErrForgotten)
			time.Sleep(10 * time.Minute)
		}
	})
}

// An entry that cannot be read makes only the IDs of its worker ID forgotten, and none never
// issued.
func TestHistoryWithEntriesThatCannotBeRead(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		ids := stamps(t, m, 3*protocol.MaxEnded, 0)
		m.stores(book.ChunkKey(0, 0), "?")
		h, err := ReadHistory(t.Context(), m)
		require.ErrorIs(t, err, ErrBadRecord)
		_, err = h.Whois(ids[0])
		require.ErrorIs(t, err, ErrForgotten)
		_, err = h.Whois(ids[len(ids)-1])
		require.NoError(t, err)
		_, err = Whois(t.Context(), m, ids[0])
		require.ErrorIs(t, err, ErrBadRecord)
		_, err = Whois(t.Context(), m, ids[len(ids)-1])
		require.NoError(t, err, "its holder is in the record")

		// JSON that is damaged.
		for _, damaged := range []string{"null", "[]", "[{}]", `[{"clockSeq": -1, "to": "2026-11-21T12:00:00Z"}]`,
			`[{"clockSeq": 1, "to": "2026-11-21T12:00:00Z"}]`,
			`[{"clockSeq": 1000000000000000, "to": "2026-11-21T12:00:00Z"}]`} {
			m.stores(book.ChunkKey(0, 0), damaged)
			h, _ = ReadHistory(t.Context(), m)
			require.NotNil(t, h)
			_, err = h.Whois(ids[0])
			require.ErrorIs(t, err, ErrForgotten, damaged)
		}

		m.stores(book.RecordKey(0), "?")
		h, err = ReadHistory(t.Context(), m)
		require.ErrorIs(t, err, ErrBadRecord)
		_, err = h.Whois(ids[0])
		require.ErrorIs(t, err, ErrForgotten)

		value, err := json.Marshal(protocol.Record{})
		require.NoError(t, err)
		m.stores(book.DoorKey, string(value))
		h, err = ReadHistory(t.Context(), m)
		require.ErrorIs(t, err, ErrBadRecord)
		require.Nil(t, h)
	})
}

// The zero History must not say that nobody issued an ID.
func TestZeroHistoryIsRefused(t *testing.T) {
	var h History
	for _, id := range []snowflake.ID{0, 1, 1 << 62} {
		_, err := h.Whois(id)
		require.ErrorIs(t, err, ErrInvalidOptions, id)
		require.EqualError(t, err, "snowflake: invalid options: this History was not made by ReadHistory")
	}
	before, after := h.Around(1)
	require.Nil(t, before)
	require.Nil(t, after)
	require.Zero(t, h.Layout())
	require.Zero(t, h.Begins())
}
