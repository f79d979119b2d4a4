//go:build unix

package recipes

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	_ "modernc.org/sqlite"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/postgres"
)

// createOrders has a CHECK, so that a row whose ID was forgotten is refused: a
// forgotten ID is 0.
const createOrders = `
CREATE TABLE orders (
	id        BIGINT PRIMARY KEY CHECK (id > 0),
	item      VARCHAR(100) NOT NULL,
	refund_of BIGINT NULL
)
`

// testSQL runs the recipe of database/sql, whatever the driver.
func testSQL(t *testing.T, driver, dsn string) {
	db := sqlx.MustOpen(driver, dsn)
	defer db.Close()
	if driver == "sqlite" {
		db.SetMaxOpenConns(1) // the database is in memory, one for each connection
	}
	servertest.Must(db.Exec(createOrders))(t)
	defer db.Exec(`DROP TABLE orders`)
	gen := newGenerator(t)
	begun := time.Now()
	ids := []snowflake.ID{nextID(t, gen), nextID(t, gen), nextID(t, gen)}
	for i, id := range ids {
		refundOf := sql.Null[snowflake.ID]{V: ids[0], Valid: i > 0}
		servertest.Must(db.Exec(db.Rebind(`INSERT INTO orders VALUES (?, ?, ?)`), id, "a hat", refundOf))(t)
	}
	_, err := db.Exec(db.Rebind(`INSERT INTO orders VALUES (?, ?, ?)`), snowflake.ID(0), "forgotten", nil)
	require.Error(t, err, "the CHECK")

	var id snowflake.ID
	var refundOf sql.Null[snowflake.ID]
	err = db.QueryRow(db.Rebind(`SELECT id, refund_of FROM orders WHERE id = ?`), ids[1]).Scan(&id, &refundOf)
	require.NoError(t, err)
	assert.Equal(t, ids[1], id)
	assert.Equal(t, ids[0], refundOf.V)
	require.NoError(t, db.QueryRow(db.Rebind(`SELECT refund_of FROM orders WHERE id = ?`), ids[0]).Scan(&refundOf))
	assert.False(t, refundOf.Valid)

	t.Run("range", func(t *testing.T) {
		lo, hi, err := gen.Layout().Range(begun.Add(-time.Second), time.Now().Add(time.Second))
		require.NoError(t, err)
		var n int
		require.NoError(t, db.QueryRow(db.Rebind(`SELECT count(*) FROM orders WHERE id >= ? AND id < ?`), lo, hi).Scan(&n))
		assert.Equal(t, 3, n)
		lo, hi, err = gen.Layout().Range(begun.Add(-time.Hour), begun.Add(-time.Minute))
		require.NoError(t, err)
		require.NoError(t, db.QueryRow(db.Rebind(`SELECT count(*) FROM orders WHERE id >= ? AND id < ?`), lo, hi).Scan(&n))
		assert.Zero(t, n)
	})
	t.Run("typed", func(t *testing.T) {
		var id OrderID
		require.NoError(t, db.QueryRow(db.Rebind(`SELECT id FROM orders WHERE id = ?`), OrderID(ids[2])).Scan(&id))
		assert.Equal(t, OrderID(ids[2]), id)
	})
	if driver == "pgx" {
		var n int
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM orders WHERE id = ANY($1)`, postgres.Array(ids[:2])).Scan(&n))
		assert.Equal(t, 2, n)
	}
	t.Run("sqlx", func(t *testing.T) { testSQLX(t, db, ids) })
}

func testSQLX(t *testing.T, db *sqlx.DB, ids []snowflake.ID) {
	type Row struct {
		ID       snowflake.ID  `db:"id"`
		Item     string        `db:"item"`
		RefundOf *snowflake.ID `db:"refund_of"`
	}
	query, args, err := sqlx.In(`SELECT * FROM orders WHERE id IN (?) ORDER BY id`, ids[:2])
	require.NoError(t, err)
	var rows []Row
	err = db.Select(&rows, db.Rebind(query), args...)
	require.NoError(t, err)
	assert.Equal(t, []Row{{ids[0], "a hat", nil}, {ids[1], "a hat", &ids[0]}}, rows)

	servertest.Must(db.NamedExec(`UPDATE orders SET item = :item WHERE id = :id`, Row{ID: ids[0], Item: "a coat"}))(t)
	var row Row
	require.NoError(t, db.Get(&row, db.Rebind(`SELECT * FROM orders WHERE id = ?`), ids[0]))
	assert.Equal(t, "a coat", row.Item)
}

func TestSQLite(t *testing.T) { testSQL(t, "sqlite", ":memory:") }

func TestMariaDB(t *testing.T) {
	t.Parallel()
	dsn := startMariaDB(t)
	t.Run("sql", func(t *testing.T) { testSQL(t, "mysql", dsn) })
	t.Run("gorm", func(t *testing.T) { testGORM(t, mysql.Open(dsn)) })
	t.Run("sharding", func(t *testing.T) { testSharding(t, func() gorm.Dialector { return mysql.Open(dsn) }) })
	t.Run("unique", func(t *testing.T) { testUniqueMySQL(t, dsn) })
	t.Run("migrate", func(t *testing.T) { testMigrateMariaDB(t, servertest.Open(t, "mysql", dsn)) })
}

// onPostgreSQL has the recipes for PostgreSQL. They share a database, one after the other.
var onPostgreSQL = map[string]func(t *testing.T, url string){
	"sql": func(t *testing.T, url string) {
		for _, mode := range modes {
			testSQL(t, "pgx", url+"&default_query_exec_mode="+mode)
		}
	},
	"pgx":  testPgx,
	"gorm": func(t *testing.T, url string) { testGORM(t, gormpostgres.Open(url)) },
	"sharding": func(t *testing.T, url string) {
		testSharding(t, func() gorm.Dialector { return gormpostgres.Open(url) })
	},
	"sqlc":    testSQLC,
	"unique":  testUniquePgx,
	"migrate": func(t *testing.T, url string) { testMigratePostgreSQL(t, servertest.Open(t, "pgx", url)) },
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	url := startPostgres(t)
	for name, test := range onPostgreSQL {
		t.Run(name, func(t *testing.T) { test(t, url) })
	}
}
