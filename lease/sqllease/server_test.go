//go:build unix

package sqllease_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

const password = "se'cret"

// server is a database server that the test has started.
type server struct {
	*servertest.Process
	dialect sqllease.Dialect
	addr    string
}

// connect opens a database as a user. The address may be that of a proxy.
func connect(dialect sqllease.Dialect, addr, user, password string) (*sql.DB, error) {
	if dialect == sqllease.MySQL {
		c := mysql.NewConfig()
		c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", addr, user, password, "app"
		c.Logger = &mysql.NopLogger{}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}
	c, err := pgx.ParseConfig(fmt.Sprintf("postgres://%s/app?sslmode=disable", addr))
	if err != nil {
		return nil, err
	}
	c.User, c.Password = user, password
	return stdlib.OpenDB(*c, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false })), nil
}

func (s *server) as(t testing.TB, user, password string) *sql.DB {
	t.Helper()
	db, err := connect(s.dialect, s.addr, user, password)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (s *server) database() database {
	return database{s.dialect, func(t testing.TB) *sql.DB { return s.as(t, "app", password) }}
}

// owner opens the database as a user who may grant rights.
func (s *server) owner() database {
	user, password := "root", ""
	if s.dialect == sqllease.PostgreSQL {
		user, password = "owner", "se'cret"
	}
	return database{s.dialect, func(t testing.TB) *sql.DB { return s.as(t, user, password) }}
}

func startPostgres(t testing.TB) *server {
	t.Helper()
	s := &server{dialect: sqllease.PostgreSQL}
	s.addr, s.Process = servertest.Postgres(t, password, func(addr string) error {
		return answers(s.dialect, addr, "owner", password, "postgres")
	}, "-c", "max_connections=1000")
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://owner:%s@%s/postgres?sslmode=disable", "se%27cret", s.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s.run(t, db, `CREATE ROLE app CREATEDB LOGIN PASSWORD 'se''cret'`, `CREATE ROLE reader LOGIN PASSWORD 'reader'`, `CREATE DATABASE app OWNER app`)
	return s
}

func startMariaDB(t testing.TB) *server {
	t.Helper()
	s := &server{dialect: sqllease.MySQL}
	s.addr, s.Process = servertest.MariaDB(t, func(addr string) error {
		return answers(s.dialect, addr, "root", "", "")
	}, "--max-connections=1000", "--max-connect-errors=1000000",
		"--connect-timeout=600", "--net-read-timeout=600", "--net-write-timeout=600") // on a busy machine
	db, err := sql.Open("mysql", "root@tcp("+s.addr+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s.run(t, db, `CREATE DATABASE app`, `CREATE USER app IDENTIFIED BY 'se\'cret'`, `GRANT ALL ON app.* TO app`,
		`CREATE USER reader IDENTIFIED BY 'reader'`)
	return s
}

// answers reports whether the server at addr lets a user in.
func answers(dialect sqllease.Dialect, addr, user, password, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	driver, dsn := "mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, addr, name)
	if dialect == sqllease.PostgreSQL {
		driver, dsn = "pgx", fmt.Sprintf("host=127.0.0.1 port=%s user=%s password='%s' dbname=%s sslmode=disable",
			addr[strings.LastIndexByte(addr, ':')+1:], user, strings.ReplaceAll(password, "'", `\'`), name)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

func (s *server) run(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func TestPostgreSQL(t *testing.T) {
	depth.Parallel(t)
	s := startPostgres(t)
	t.Run("CommitThatFails", func(t *testing.T) { commitFails(t, s) })
	s.fits(t)
	t.Run("Functions", func(t *testing.T) {
		t.Parallel()
		functionsOfPostgreSQL(t, s)
	})
}

func TestMariaDB(t *testing.T) {
	depth.Parallel(t)
	s := startMariaDB(t)
	t.Run("AutocommitOff", func(t *testing.T) { autocommitOff(t, s) })
	s.fits(t)
	t.Run("Functions", func(t *testing.T) {
		t.Parallel()
		functionsOfMariaDB(t, s)
	})
}

// fits runs the tests for both servers. Tests that need the server alone run first, then all others run in
// parallel.
func (s *server) fits(t *testing.T) {
	for _, test := range []struct {
		name  string
		run   func(*testing.T, *server)
		alone bool
	}{
		{"OtherSettings", otherSettings, true},
		{"ServerThatHangs", serverAway, true},
		{"ServerThatIsGone", serverGone, true},
		{"NodesAfterTheServerWasKilled", nodesAfterKill, true},
		{"RefusedUsers", refusedUsers, false},
		{"OneRoundTripPerRenewal", oneRoundTrip, false},
		{"LockIsNoConflict", rowLocked, false},
		{"DeletedRowsAreNoNewStore", func(t *testing.T, s *server) { deletedRows(t, s.database()) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.alone {
				t.Parallel()
			}
			test.run(t, s)
		})
	}
	servertest.Run(t, s.fleet())
	fits(t, func(testing.TB) database { return s.database() })
}
