//go:build go1.25

package lease

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// stamps lets n owners hold worker ID 0 one after the other, and returns an ID of each.
func stamps(t *testing.T, m Store, n int, history time.Duration) (ids []snowflake.ID) {
	t.Helper()
	for i := range n {
		h := mustAcquire(t, m, plain, clockAt(0), named(fmt.Sprint("owner ", i)), func(o *Options) { o.History = history })
		id, err := h.g.NextID()
		require.NoError(t, err)
		ids = append(ids, id)
		require.NoError(t, h.Release(t.Context()))
		time.Sleep(time.Second)
	}
	return ids
}

func TestWhoisFindsEveryEarlierHolder(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		for i, id := range stamps(t, m, 5*protocol.MaxEnded, 0) {
			h, err := Whois(t.Context(), m, id)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("owner ", i), h.Owner)
		}
		r := m.record(0)
		assert.Equal(t, protocol.Chunks{First: 0, Next: 4}, r.Chunks)
		assert.LessOrEqual(t, len(r.Ended), protocol.MaxEnded)
	})
}

// Holders that ended longer ago than Options.History are dropped, also those that have left the
// record.
func TestHistoryIsTrimmed(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		ids := stamps(t, m, 10*protocol.MaxEnded, 2*protocol.MaxEnded*time.Second)
		r := m.record(0)
		assert.LessOrEqual(t, r.Chunks.Next-r.Chunks.First, 4)
		left, err := m.List(t.Context(), book.HistoryPrefix)
		require.NoError(t, err)
		assert.Len(t, left, r.Chunks.Next-r.Chunks.First)
		for i, id := range ids {
			h, err := Whois(t.Context(), m, id)
			if i >= len(ids)-2*protocol.MaxEnded {
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint("owner ", i), h.Owner)
			} else if err != nil {
				require.ErrorIs(t, err, ErrForgotten)
			}
		}
		_, err = Whois(t.Context(), m, ids[0])
		require.ErrorIs(t, err, ErrForgotten)

		m = newMemory()
		ids = stamps(t, m, 3, time.Second)
		_, err = Whois(t.Context(), m, ids[0])
		require.ErrorIs(t, err, ErrForgotten, "it was dropped from the record")
	})
}

// Nobody issued an ID of another clock sequence than the holder's, or an ID of the end of a
// holding.
func TestWhoisReturnsErrNeverIssuedBesideAHolding(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, seqs, clockAt(0))
		id, err := h.g.NextID()
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		by, err := Whois(t.Context(), m, id)
		require.NoError(t, err)
		other, end := seqs.Decode(id), seqs.Decode(id)
		other.ClockSeq++
		end.Time = by.To
		for _, p := range []snowflake.Parts{other, end} {
			id, err := seqs.Encode(p)
			require.NoError(t, err)
			_, err = Whois(t.Context(), m, id)
			require.ErrorIs(t, err, ErrNeverIssued)
		}
	})
}

// If a process stores a part of the history and then loses the race for the record, the history is
// that of the record which won.
func TestHistoryOfALostRace(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		ids := stamps(t, m, protocol.MaxEnded+1, 0)
		m.becomes(refuses(book.RecordPrefix))
		_, err := acquire(t, m, plain, clockAt(0), named("loser"))
		require.ErrorIs(t, err, errDown)
		require.Equal(t, protocol.Chunks{}, m.record(0).Chunks)
		left, err := m.List(t.Context(), book.HistoryPrefix)
		require.NoError(t, err)
		require.Len(t, left, 1, "it stored a part")
		m.becomes()
		time.Sleep(span) // until it has given up
		ids = append(ids, stamps(t, m, protocol.MaxEnded+1, 0)...)
		for _, id := range ids {
			_, err := Whois(t.Context(), m, id)
			require.NoError(t, err)
		}
	})
}

// If a part of the history is lost, Whois says that the issuer is forgotten, also after the history
// has left the part out.
func TestWhoisReturnsErrForgottenIfAPartOfTheHistoryIsLost(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		ids := stamps(t, m, 2*protocol.MaxEnded, 0)
		m.set(func() { delete(m.entries, book.ChunkKey(0, 0)) })
		_, err := Whois(t.Context(), m, ids[0])
		require.ErrorIs(t, err, ErrForgotten)
		_, err = Whois(t.Context(), m, ids[len(ids)-1])
		require.NoError(t, err)
		later := stamps(t, m, 2*protocol.MaxEnded, 0)
		require.Positive(t, m.record(0).Chunks.First)
		_, err = Whois(t.Context(), m, ids[0])
		require.ErrorIs(t, err, ErrForgotten)
		_, err = Whois(t.Context(), m, later[0])
		require.NoError(t, err)
	})
}

// A holder that gave its worker ID back unused is not in the history, not even with the longer time
// that it had in an earlier save.
func TestUnusedHoldingIsNotInTheHistory(t *testing.T) {
	begin := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, layout := range []snowflake.Layout{plain, seqs} {
		unused := protocol.Record{Layout: layout, Holder: protocol.Holder{Token: "a"}, From: begin, Bounds: []time.Time{begin}}
		if layout == seqs {
			unused.Bounds = append(unused.Bounds, begin.Add(time.Minute))
		}
		earlier := protocol.Holding{Token: "z", From: begin.Add(-time.Minute), To: begin}
		longer := unused.Holding()
		longer.To = begin.Add(time.Second)
		unused.Ended = []protocol.Holding{earlier, longer}
		next := unused.Take(protocol.Window{From: begin, Before: begin}, protocol.Holder{Token: "b", WindowLength: span}, time.Time{}, protocol.Clocks{Own: begin})
		saved, chunk := next.WithHistoryOf(unused, begin.Add(-time.Hour))
		assert.Equal(t, []protocol.Holding{earlier}, saved.Ended)
		assert.Nil(t, chunk)
		assert.Zero(t, saved.Forgotten)
	}
}

// unreadable is a store in which one entry cannot be read.
type unreadable struct {
	*memory
	key, version string // of the entry
}

func (s unreadable) Get(ctx context.Context, key string) (Entry, error) {
	e, err := s.memory.Get(ctx, key)
	if key == s.key && e.Version == s.version {
		return Entry{Key: key, Version: e.Version}, ErrBadRecord
	}
	return e, err
}

// An entry of the history that was left over and cannot be read is made anew, when a record comes
// to it.
func TestUnreadableHistoryIsMadeAnew(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		m.stores(book.ChunkKey(0, 0), "?")
		stamps(t, unreadable{m, book.ChunkKey(0, 0), "1"}, 2*protocol.MaxEnded, 0)
	})
}
