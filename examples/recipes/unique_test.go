//go:build unix

package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// insertOrder also works inside a transaction: it uses ON CONFLICT, because an error would abort
// the transaction.
func insertOrder(ctx context.Context, pool *pgxpool.Pool, gen *snowflake.Generator, item string) (id snowflake.ID, collisions int, err error) {
	for ; ; collisions++ {
		if id, err = gen.NextIDContext(ctx); err != nil {
			return 0, collisions, err
		}
		tag, err := pool.Exec(ctx, `INSERT INTO orders (id, item) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, item)
		if err != nil || tag.RowsAffected() == 1 {
			return id, collisions, err
		}
	}
}

// insertOrderMySQL asks again if MySQL or MariaDB refuses the ID, and only then.
func insertOrderMySQL(ctx context.Context, db *sql.DB, gen *snowflake.Generator, item string) (id snowflake.ID, collisions int, err error) {
	for ; ; collisions++ {
		if id, err = gen.NextIDContext(ctx); err != nil {
			return 0, collisions, err
		}
		_, err = db.ExecContext(ctx, `INSERT INTO orders (id, item) VALUES (?, ?)`, id, item)
		// 1062 is ER_DUP_ENTRY.
		if refused := (*mysql.MySQLError)(nil); !errors.As(err, &refused) || refused.Number != 1062 {
			return id, collisions, err
		}
	}
}

const orderWithItem = `CREATE TABLE orders (id BIGINT PRIMARY KEY, item VARCHAR(100) NOT NULL)`

// testTwins lets two generators with one worker ID, which is a mistake, insert rows at the same
// time. No row may be lost.
func testTwins(t *testing.T, db *sql.DB, insert func(gen *snowflake.Generator, item string) (snowflake.ID, int, error)) {
	const rows = 2000
	_, err := db.Exec(`DROP TABLE IF EXISTS orders`) // of another recipe
	require.NoError(t, err)
	servertest.Must(db.Exec(orderWithItem))(t)
	defer db.Exec(`DROP TABLE orders`)
	var wg sync.WaitGroup
	collisions := make([]int, 2)
	for twin := range collisions {
		gen, err := snowflake.New(1, &snowflake.Options{Clock: snowflake.SystemClock()}) // as in a process of its own
		require.NoError(t, err)
		wg.Go(func() {
			for i := range rows {
				_, n, err := insert(gen, fmt.Sprintf("%d of twin %d", i, twin))
				assert.NoError(t, err)
				collisions[twin] += n
			}
		})
	}
	wg.Wait()
	var n int
	require.NoError(t, db.QueryRow(`SELECT count(DISTINCT item) FROM orders`).Scan(&n))
	assert.Equal(t, 2*rows, n, "rows were lost")
	assert.Positive(t, collisions[0]+collisions[1], "the twins never met")
	t.Logf("%d rows, %d collisions, no row lost", n, collisions[0]+collisions[1])
}

func testUniqueMySQL(t *testing.T, dsn string) {
	db := servertest.Open(t, "mysql", dsn)
	testTwins(t, db, func(gen *snowflake.Generator, item string) (snowflake.ID, int, error) {
		return insertOrderMySQL(t.Context(), db, gen, item)
	})
}

func testUniquePgx(t *testing.T, url string) {
	pool := servertest.Must(pgxpool.New(t.Context(), url))(t)
	defer pool.Close()
	testTwins(t, servertest.Open(t, "pgx", url), func(gen *snowflake.Generator, item string) (snowflake.ID, int, error) {
		return insertOrder(t.Context(), pool, gen, item)
	})
}
