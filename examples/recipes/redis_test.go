//go:build unix

package recipes

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// go-redis takes IDs as arguments, and reads them back.
func TestRedis(t *testing.T) {
	addr, _ := servertest.Redis(t)
	rdb, ctx := redis.NewClient(&redis.Options{Addr: addr}), t.Context()
	t.Cleanup(func() { rdb.Close() })

	for _, id := range []snowflake.ID{fewest, middle, most} {
		require.NoError(t, rdb.Set(ctx, "last", id, 0).Err())
		assert.Equal(t, id.String(), rdb.Get(ctx, "last").Val())
		var back snowflake.ID
		require.NoError(t, rdb.Get(ctx, "last").Scan(&back))
		assert.Equal(t, id, back)

		require.NoError(t, rdb.Set(ctx, "order", OrderID(id), 0).Err())
		assert.Equal(t, OrderID(id).String(), rdb.Get(ctx, "order").Val())
		var order OrderID
		require.NoError(t, rdb.Get(ctx, "order").Scan(&order))
		assert.Equal(t, OrderID(id), order)
	}
	require.NoError(t, rdb.Set(ctx, "last", "-5", 0).Err())
	var back snowflake.ID
	assert.ErrorIs(t, rdb.Get(ctx, "last").Scan(&back), snowflake.ErrInvalidID)
	assert.ErrorIs(t, rdb.Set(ctx, "last", snowflake.ID(-5), 0).Err(), snowflake.ErrInvalidID)

	type Row struct {
		ID    snowflake.ID `redis:"id"`
		Order OrderID      `redis:"order"`
	}
	row := Row{most, OrderID(middle)}
	require.NoError(t, rdb.HSet(ctx, "row", row).Err())
	assert.Equal(t, map[string]string{"id": most.String(), "order": OrderID(middle).String()}, rdb.HGetAll(ctx, "row").Val())
	var rowBack Row
	require.NoError(t, rdb.HGetAll(ctx, "row").Scan(&rowBack))
	assert.Equal(t, row, rowBack)

	require.NoError(t, rdb.RPush(ctx, "list", middle, most).Err())
	var list []snowflake.ID
	require.NoError(t, rdb.LRange(ctx, "list", 0, -1).ScanSlice(&list))
	assert.Equal(t, []snowflake.ID{middle, most}, list)

	// A score is a float64, which rounds an ID: the ID is the member.
	require.NoError(t, rdb.ZAdd(ctx, "sorted", redis.Z{Score: float64(most), Member: most - 1},
		redis.Z{Score: float64(middle), Member: middle}).Err())
	var sorted []snowflake.ID
	require.NoError(t, rdb.ZRange(ctx, "sorted", 0, -1).ScanSlice(&sorted))
	assert.Equal(t, []snowflake.ID{middle, most - 1}, sorted)
}
