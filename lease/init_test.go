//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

func TestNoStartWaitsAfterInit(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		require.NoError(t, Init(t.Context(), m, snowflake.Layout{}))
		begun := time.Now()
		l, err := Acquire(t.Context(), m, nil)
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
		require.NoError(t, l.Release(t.Context()))
		_, err = Acquire(t.Context(), m, &Options{Layout: fleet})
		require.ErrorIs(t, err, ErrLayout)
		var layout *LayoutError
		require.ErrorAs(t, err, &layout)
		assert.Equal(t, LayoutError{Worker: none, Where: "the store", Has: snowflake.DefaultLayout(), Want: fleet}, *layout)
	})
}

// A start that waits goes on when Init has opened the store, although it saves meanwhile how long
// it has waited.
func TestInitOpensAStoreForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, wait, begun := newMemory(), time.Second, time.Now()
		for range 20 {
			go func() {
				l, err := Acquire(t.Context(), m, &Options{Layout: fleet})
				assert.NoError(t, err)
				assert.LessOrEqual(t, time.Since(begun), wait+2*protocol.Progress)
				assert.NoError(t, l.Release(t.Context()))
			}()
		}
		time.Sleep(wait)
		// Before Init saves the door, three others save theirs.
		others := 3
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			if others > 0 && q.writes() && q.key == book.DoorKey {
				others--
				m.set(func() { m.store(&query{do: "put", key: book.DoorKey, value: m.entries[book.DoorKey].Value}) })
			}
			return next(ctx, q)
		})
		require.ErrorIs(t, Init(t.Context(), m, plain), ErrLayout)
		require.NoError(t, Init(t.Context(), m, fleet))
		require.Zero(t, others)
		time.Sleep(time.Minute)
		d, err := book.GetDoor(m.line())
		require.NoError(t, err)
		assert.True(t, d.Open && !d.Healed)
	})
}

// A store that refuses each save does not keep Init for ever.
func TestInitGivesUpAfterManyConflicts(t *testing.T) {
	m := newMemory()
	m.becomes(func(ctx context.Context, q *query, next asks) error {
		if q.writes() {
			return ErrConflict
		}
		return next(ctx, q)
	})
	require.ErrorIs(t, Init(t.Context(), m, fleet), ErrConflict)
}

// The file beside a directory says that the directory was used. So neither Init nor NewStore opens
// it when it is empty.
func TestEmptiedDirectoryIsNotNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	require.NoError(t, Init(t.Context(), File(dir), fleet))
	require.NoError(t, os.Remove(filepath.Join(dir, book.DoorKey)))
	require.NoError(t, os.Remove(filepath.Join(dir, book.DoorKey+"~lock")))
	for range 2 { // the first start makes a door, and keeps the trace in it
		err := Init(t.Context(), File(dir), fleet)
		require.ErrorIs(t, err, ErrInitialized)
		require.ErrorContains(t, err, ".leases.identity")
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = Acquire(ctx, File(dir), &Options{Layout: fleet, NewStore: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.ErrorIs(t, err, ErrWiped)
		assert.Contains(t, log.String(), ".leases.identity")
		assert.Contains(t, log.String(), "NewStore (--new-store) is not believed")
		_, err = Holders(t.Context(), File(dir))
		require.ErrorIs(t, err, ErrWiped)
		assert.NotContains(t, err.Error(), "init")
	}
}

// Init changes nothing in a store that has any entry besides that of a start that waits.
func TestInitRefusesAStoreThatIsInUse(t *testing.T) {
	for _, key := range []string{book.DoorKey, book.RecordKey(3), book.MarkKey(3), book.OwnerKey("a"), book.ChunkKey(3, 1), book.WatermarkKey, book.SilenceKey} {
		m := newMemory()
		_, err := m.Put(t.Context(), key, "", []byte("?"))
		require.NoError(t, err)
		puts := m.puts
		require.ErrorIs(t, Init(t.Context(), m, fleet), ErrInitialized, key)
		require.ErrorContains(t, Init(t.Context(), m, fleet), key)
		assert.Equal(t, puts, m.puts, key)
	}
}

func TestInitRefusesBadArguments(t *testing.T) {
	require.ErrorIs(t, Init(t.Context(), nil, fleet), ErrInvalidOptions)
	m := newMemory()
	require.ErrorIs(t, Init(t.Context(), m, snowflake.Layout{TimeBits: 99}), snowflake.ErrInvalidLayout)
	m.becomes(down)
	require.ErrorIs(t, Init(t.Context(), m, fleet), errDown)
	require.Zero(t, m.puts)
	m.becomes(func(ctx context.Context, q *query, next asks) error {
		// The answer is lost.
		return errors.Join(next(ctx, q), map[bool]error{true: errDown}[q.writes()])
	})
	require.ErrorIs(t, Init(t.Context(), m, fleet), errDown)
	m.becomes()
	require.ErrorIs(t, Init(t.Context(), m, fleet), ErrInitialized)
}
