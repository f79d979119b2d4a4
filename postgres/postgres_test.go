package postgres

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// Module examples tests it with PostgreSQL.
func TestArrayHasPostgreSQLSyntax(t *testing.T) {
	for want, ids := range map[string][]snowflake.ID{
		"{}":                        nil,
		"{7}":                       {7},
		"{0,9223372036854775807,1}": {0, math.MaxInt64, 1},
	} {
		got, err := Array(ids).Value()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := Array([]int64{1, 2, math.MinInt64, -1}).Value()
	require.Nil(t, got)
	require.ErrorIs(t, err, snowflake.ErrInvalidID)
	require.EqualError(t, err, "index 2 of the array: snowflake: invalid ID: -9223372036854775808 is negative")
}
