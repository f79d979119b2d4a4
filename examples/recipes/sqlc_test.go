//go:build unix

package recipes

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/examples/recipes/sqlcorders"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// testSQLC runs the code that sqlc wrote into sqlcorders: sqlc generate, in that folder.
func testSQLC(t *testing.T, url string) {
	ctx := t.Context()
	for _, mode := range modes {
		conn := servertest.Must(pgx.Connect(ctx, url+"&default_query_exec_mode="+mode))(t)
		defer conn.Close(context.Background())
		conn.TypeMap().RegisterDefaultPgType(snowflake.ID(0), "int8")
		conn.TypeMap().RegisterDefaultPgType([]snowflake.ID{}, "_int8")
		tx := servertest.Must(conn.Begin(ctx))(t)
		create := servertest.Must(os.ReadFile("sqlcorders/schema.sql"))(t)
		servertest.Must(tx.Exec(ctx, string(create)))(t)

		id := middle
		queries := sqlcorders.New(tx)
		require.NoError(t, queries.CreateOrder(ctx, sqlcorders.CreateOrderParams{ID: middle, Item: "a hat"}))
		require.NoError(t, queries.CreateOrder(ctx, sqlcorders.CreateOrderParams{ID: most, Item: "a coat", RefundOf: &id}))
		order := servertest.Must(queries.GetOrder(ctx, most))(t)
		assert.Equal(t, sqlcorders.SqlcOrder{ID: most, Item: "a coat", RefundOf: &id}, order)
		orders, err := queries.ListOrders(ctx, []snowflake.ID{most, middle})
		require.NoError(t, err, mode)
		assert.Equal(t, []sqlcorders.SqlcOrder{{ID: middle, Item: "a hat"}, order}, orders)
		require.NoError(t, tx.Rollback(ctx))
	}
}
