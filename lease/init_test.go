//go:build go1.25

package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func TestNoStartWaitsAfterInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		require.NoError(t, Init(t.Context(), m, snowflake.Layout{}))
		begun := time.Now()
		l, err := Acquire(t.Context(), m, nil)
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
		require.NoError(t, l.Release(t.Context()))
		_, err = Acquire(t.Context(), m, &Options{Layout: fleet})
		assert.ErrorIs(t, err, ErrLayout)
	})
}

// Init changes nothing in a store that has any entry, even one made by a waiting newcomer or left by
// a wipe.
func TestInitRefusesAStoreThatIsInUse(t *testing.T) {
	for _, key := range []string{doorKey, recordKey(3), markKey(3), ownerKey("a"), chunkKey(3, 1), watermarkKey, silenceKey} {
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
