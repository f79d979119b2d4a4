//go:build unix

package recipes

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/postgres"
)

// modes are all in which pgx sends a query. PgBouncer, pooling by transaction,
// needs exec or simple_protocol.
var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}

func testPgx(t *testing.T, url string) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			url := url + "&default_query_exec_mode=" + mode
			conn := servertest.Must(pgx.Connect(t.Context(), url))(t)
			defer conn.Close(context.Background())
			t.Run("bigint column", func(t *testing.T) { testPgxBigint(t, conn) })
			t.Run("text column", func(t *testing.T) { testPgxText(t, conn, mode) })
			t.Run("plain slice", func(t *testing.T) { testPgxPlain(t, conn, url, mode) })
		})
	}
}

func testPgxBigint(t *testing.T, conn *pgx.Conn) {
	ctx := t.Context()
	servertest.Must(conn.Exec(ctx, `CREATE TEMP TABLE orders (id bigint PRIMARY KEY, refund_of bigint)`))(t)

	for _, id := range []snowflake.ID{fewest, middle, most} {
		_, err := conn.Exec(ctx, `INSERT INTO orders VALUES ($1, $2)`, id, sql.Null[snowflake.ID]{V: fewest, Valid: id == middle})
		require.NoError(t, err)
	}
	var id snowflake.ID
	var refundOf *snowflake.ID
	require.NoError(t, conn.QueryRow(ctx, `SELECT id, refund_of FROM orders WHERE id = $1`, middle).Scan(&id, &refundOf))
	assert.Equal(t, middle, id)
	assert.Equal(t, fewest, *refundOf)
	require.NoError(t, conn.QueryRow(ctx, `SELECT id, refund_of FROM orders WHERE id = $1`, OrderID(most)).Scan(&id, &refundOf))
	assert.Equal(t, most, id)
	assert.Nil(t, refundOf)
	var order OrderID
	require.NoError(t, conn.QueryRow(ctx, `SELECT max(id) FROM orders`).Scan(&order))
	assert.Equal(t, OrderID(most), order)

	ids := []snowflake.ID{most, fewest}
	rows := servertest.Must(conn.Query(ctx, `SELECT id FROM orders WHERE id = ANY($1) ORDER BY id`, postgres.Array(ids)))(t)
	found := servertest.Must(pgx.CollectRows(rows, pgx.RowTo[snowflake.ID]))(t)
	assert.Equal(t, []snowflake.ID{fewest, most}, found)

	for want, param := range map[int]any{
		1: postgres.Array([]OrderID{OrderID(middle)}),
		0: postgres.Array[snowflake.ID](nil),
	} {
		var n int
		require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM orders WHERE id = ANY($1)`, param).Scan(&n))
		assert.Equal(t, want, n)
		require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM orders WHERE id <> ALL($1)`, param).Scan(&n))
		assert.Equal(t, 3-want, n, "none are an empty array, not a NULL")
	}
	var all []snowflake.ID
	require.NoError(t, conn.QueryRow(ctx, `SELECT array_agg(id ORDER BY id) FROM orders`).Scan(&all))
	assert.Equal(t, []snowflake.ID{fewest, middle, most}, all)
}

// What a typed ID becomes in a text column depends on the mode.
func testPgxText(t *testing.T, conn *pgx.Conn, mode string) {
	servertest.Must(conn.Exec(t.Context(), `CREATE TEMP TABLE texts (t text)`))(t)
	var got string
	require.NoError(t, conn.QueryRow(t.Context(), `INSERT INTO texts VALUES ($1) RETURNING t`, OrderID(5)).Scan(&got))
	if mode == "exec" || mode == "simple_protocol" {
		assert.Equal(t, "5", got)
	} else {
		assert.Equal(t, "order_0000000000005", got)
	}

	// The untyped form is its number, in a BIGINT column only.
	var id snowflake.ID
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT $1::bigint`, OrderID(5).Any()).Scan(&id))
	assert.Equal(t, snowflake.ID(5), id)
}

// Without Array, two modes do not take a slice of IDs. With two lines for each connection, each
// mode does.
func testPgxPlain(t *testing.T, conn *pgx.Conn, url, mode string) {
	ctx := t.Context()
	_, err := conn.Exec(ctx, `SELECT 1 WHERE 1 = ANY($1::bigint[])`, []snowflake.ID{1})
	if mode == "exec" || mode == "simple_protocol" {
		assert.ErrorContains(t, err, "cannot find encode plan")
	} else {
		assert.NoError(t, err)
	}
	config := servertest.Must(pgxpool.ParseConfig(url))(t)
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterDefaultPgType(snowflake.ID(0), "int8")
		conn.TypeMap().RegisterDefaultPgType([]snowflake.ID{}, "_int8")
		return nil
	}
	pool := servertest.Must(pgxpool.NewWithConfig(ctx, config))(t)
	defer pool.Close()
	var n int
	require.NoError(t, pool.QueryRow(ctx, `SELECT cardinality($1::bigint[])`, []snowflake.ID{1, 2, 3}).Scan(&n))
	assert.Equal(t, 3, n)

	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, db.QueryRow(`SELECT cardinality($1::bigint[])`, []snowflake.ID{1, 2}).Scan(&n))
	assert.Equal(t, 2, n)
}
