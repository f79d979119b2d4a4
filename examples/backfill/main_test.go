package main

import (
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// rows returns a function that reads n rows of a few ticks.
func rows(seed uint64, n int) func() (row, error) {
	r := rand.New(rand.NewPCG(seed, 0))
	key := uint64(0)
	return func() (row, error) {
		if key == uint64(n) {
			return row{}, io.EOF
		}
		key++
		return row{key, snowflake.DefaultEpoch.Time().Add(time.Duration(r.IntN(50_000)) * time.Microsecond)}, nil
	}
}

func TestEachRowGetsItsOwnID(t *testing.T) {
	b := backfill{Layout: snowflake.DefaultLayout(), Workers: []int{7, 9}, Files: 5}
	b.Layout.SequenceBits, b.Layout.TimeBits = 3, 43
	seen, byKey := map[snowflake.ID]bool{}, map[uint64]snowflake.ID{}
	collect := func(key uint64, id snowflake.ID) error {
		p := b.Layout.Decode(id)
		assert.Contains(t, b.Workers, p.Worker)
		assert.False(t, seen[id])
		seen[id], byKey[key] = true, id
		return nil
	}
	require.NoError(t, b.run(rows(1, 300), collect))
	assert.Len(t, byKey, 300)

	// The same rows get the same IDs again.
	require.NoError(t, b.run(rows(1, 300), func(key uint64, id snowflake.ID) error {
		assert.Equal(t, byKey[key], id)
		return nil
	}))
}

func TestTickWithTooManyRows(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := backfill{Layout: snowflake.DefaultLayout(), Workers: []int{7}, Files: 5}
	b.Layout.SequenceBits = 3
	err := b.run(rows(1, 2000), func(uint64, snowflake.ID) error { return nil })
	assert.ErrorContains(t, err, "more than 8 rows of 2026-01-01T00:00:00.0")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

func Example() {
	main()
	// Output:
	// rows:       1000000
	// unique IDs: 1000000
	// stamped with their row's time: 1000000
	// most rows in a millisecond: 22
	// too early:  row 7: snowflake: time before the epoch: 2026-10-31T18:00:00.000Z is before 2027-10-31T18:00:00.000Z
}
