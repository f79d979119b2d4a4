//go:build unix

package database

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// server is a running server, with the SQL of its dialect.
type server struct {
	*sql.DB
	process *servertest.Process
	version string
	column  func(key) string // the type of a key's column
	holder  func(i int) string
	time    string   // the type of created_at
	flush   []string // writes the contents of the pool and the log to the table's files
	settle  []string // updates the server's statistics before queries
	log     string   // selects the bytes of log written so far
	sizes   string   // selects the sizes of orders in bytes, by the names below
}

// The parts of a table. In InnoDB the rows are in the primary key.
const (
	theRows = "rows"
	theKey  = "key"
	byWhom  = "by_customer"
	byTime  = "by_time"
)

// servers has functions that start a server with a buffer pool of pool MB.
var servers = map[string]func(t testing.TB, pool int) *server{
	"PostgreSQL": startPostgres,
	"MariaDB":    startMariaDB,
}

func startPostgres(t testing.TB, pool int) *server {
	addr, p := servertest.Postgres(t, "", nil, "-c", fmt.Sprintf("shared_buffers=%dMB", pool))
	db := servertest.Open(t, "pgx", servertest.PostgresURL(addr)+"&timezone=UTC")
	return &server{
		DB:      db,
		process: p,
		version: "PostgreSQL " + strings.Fields(ask[string](t, db, `SHOW server_version`))[0],
		column:  func(k key) string { return k.postgres },
		holder:  func(i int) string { return "$" + strconv.Itoa(i) },
		time:    "timestamptz",
		flush:   []string{`CHECKPOINT`},
		settle:  []string{`VACUUM ANALYZE orders`, `CHECKPOINT`},
		log:     `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`,
		sizes: `SELECT 'rows', pg_relation_size('orders') UNION ALL
			SELECT replace(indexrelname, 'orders_pkey', 'key'), pg_relation_size(indexrelid)
			FROM pg_stat_user_indexes WHERE relname = 'orders'`,
	}
}

func startMariaDB(t testing.TB, pool int) *server {
	addr, p := servertest.MariaDB(t, nil, fmt.Sprintf("--innodb-buffer-pool-size=%dM", pool),
		"--innodb-log-file-size=96M") // the server's default, unlike in the other tests
	db := servertest.Open(t, "mysql", servertest.MariaDBDSN(addr)+"test?parseTime=true&time_zone=%27%2B00%3A00%27")
	return &server{
		DB:      db,
		process: p,
		version: "MariaDB " + strings.SplitN(ask[string](t, db, `SELECT version()`), "-", 2)[0],
		column:  func(k key) string { return k.mariadb },
		holder:  func(int) string { return "?" },
		time:    "TIMESTAMP(6)",
		flush:   []string{`FLUSH TABLES orders FOR EXPORT`, `UNLOCK TABLES`},
		settle:  []string{`ANALYZE TABLE orders`, `FLUSH TABLES orders FOR EXPORT`, `UNLOCK TABLES`},
		log:     `SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'innodb_os_log_written'`,
		sizes: `SELECT replace(index_name, 'PRIMARY', 'rows'), stat_value * @@innodb_page_size FROM mysql.innodb_index_stats
			WHERE database_name = 'test' AND table_name = 'orders' AND stat_name = 'size'`,
	}
}

func ask[T any](t testing.TB, db *sql.DB, query string) (v T) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// run runs statements on one connection.
func (s *server) run(t testing.TB, statements ...string) {
	t.Helper()
	conn := servertest.Must(s.Conn(background))(t)
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(background, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// create creates an empty table, with an index on customer.
func (s *server) create(t testing.TB, k table) {
	t.Helper()
	s.run(t, `DROP TABLE IF EXISTS orders`,
		fmt.Sprintf(`CREATE TABLE orders (id %s PRIMARY KEY, created_at %s NOT NULL, customer integer NOT NULL, amount integer NOT NULL, payload varchar(100) NOT NULL)`,
			s.column(k.key), s.time),
		`CREATE INDEX `+byWhom+` ON orders (customer)`)
	if k.index {
		s.run(t, `CREATE INDEX `+byTime+` ON orders (created_at)`)
	}
}

// measureSizes returns the sizes of the rows and of each index in bytes, by name.
func (s *server) measureSizes(t testing.TB) map[string]int64 {
	t.Helper()
	found := servertest.Must(s.Query(s.sizes))(t)
	defer found.Close()
	all := map[string]int64{}
	for found.Next() {
		var name string
		var bytes int64
		if err := found.Scan(&name, &bytes); err != nil {
			t.Fatal(err)
		}
		all[name] = bytes
	}
	require.NoError(t, found.Err())
	return all
}

var background = context.Background()
