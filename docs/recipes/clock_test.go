package recipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/seed-5394e6b1/snowflake"
)

func newGenerator(t testing.TB) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.New(7, nil)
	require.NoError(t, err)
	return gen
}

func nextID(t testing.TB, gen *snowflake.Generator) snowflake.ID {
	t.Helper()
	id, err := gen.NextID()
	require.NoError(t, err)
	return id
}

// If the clock stands still, a tick has 4,096 IDs, and each millisecond of BorrowAhead as many.
func TestWithAFixedClock(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	gen, err := snowflake.New(7, &snowflake.Options{Clock: snowflake.ClockFunc(func() time.Time { return now })})
	require.NoError(t, err)
	first := nextID(t, gen)
	assert.Equal(t, snowflake.ID(54901761638428672), first) // the same each time
	for range 4095 {
		nextID(t, gen)
	}
	_, err = gen.NextID()
	require.ErrorIs(t, err, snowflake.ErrClockBackward)
	assert.ErrorContains(t, err, "clock stands still")

	now = now.Add(time.Millisecond)
	assert.Equal(t, time.Millisecond, gen.Decode(nextID(t, gen)).Time.Sub(gen.Decode(first).Time))

	ahead, err := snowflake.New(8, &snowflake.Options{
		Clock:       snowflake.ClockFunc(func() time.Time { return now }),
		BorrowAhead: time.Millisecond,
	})
	require.NoError(t, err)
	n, err := ahead.Fill(t.Context(), make([]snowflake.ID, 10_000))
	require.ErrorIs(t, err, snowflake.ErrClockBackward)
	assert.Equal(t, 2*4096, n)
}

// A bubble begins in the year 2000, before DefaultEpoch: sleep until 2026 first, which takes no time.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)))
		gen, err := snowflake.New(7, nil)
		require.NoError(t, err)
		assert.Equal(t, snowflake.ID(54901761638428672), nextID(t, gen))
		time.Sleep(time.Minute)
		assert.Equal(t, time.Now().UTC(), gen.Decode(nextID(t, gen)).Time)
	})
}

// NewGenerator is a provider for wire.Build(NewGenerator, ...) and for fx.Provide.
func NewGenerator() (*snowflake.Generator, error) { return snowflake.New(7, nil) }

func TestInjected(t *testing.T) {
	var id snowflake.ID
	var err error
	app := fx.New(fx.NopLogger,
		fx.Provide(NewGenerator),
		fx.Invoke(func(gen *snowflake.Generator) { id, err = gen.NextID() }))
	require.NoError(t, app.Err())
	require.NoError(t, err)
	assert.Equal(t, 7, snowflake.Decode(id).Worker)
}
