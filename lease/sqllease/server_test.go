//go:build unix

package sqllease_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

const password = "se'cret"

// server is a database server of the test's own.
type server struct {
	*servertest.Process
	dialect sqllease.Dialect
	addr    string
}

// connect opens a database as a user, through addr, which may be a proxy's.
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

// owner opens the database as one who may grant rights.
func (s *server) owner() database {
	user, password := "root", ""
	if s.dialect == sqllease.PostgreSQL {
		user, password = "owner", "se'cret"
	}
	return database{s.dialect, func(t testing.TB) *sql.DB { return s.as(t, user, password) }}
}

func startPostgres(t testing.TB) *server {
	t.Helper()
	const debian, user = "postgresql", "postgres"
	initdb := servertest.Program(t, debian, "/usr/lib/postgresql/*/bin/initdb", "initdb")
	postgres := servertest.Program(t, debian, "/usr/lib/postgresql/*/bin/postgres", "postgres")
	dir := servertest.Dir(t, user)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(password), 0o644); err != nil {
		t.Fatal(err)
	}
	data, port := filepath.Join(dir, "data"), servertest.Port(t)
	s := &server{dialect: sqllease.PostgreSQL, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	done := filepath.Join(dir, "initialized")
	servertest.Start(t, servertest.Command{
		Path: "/bin/sh", User: user, Dir: dir,
		Args: []string{"-c", `"$0" "$@" && touch initialized && exec sleep 600`, initdb, "-D", data, "-U", "owner",
			"--pwfile", secret, "-A", "scram-sha-256", "--no-sync", "--no-locale", "-E", "UTF8"},
	}, func() error {
		_, err := os.Stat(done)
		return err
	}).Kill()
	s.Process = servertest.Start(t, servertest.Command{
		Path: postgres, User: user, Dir: dir,
		Args: []string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=1000"},
	}, func() error { return s.answers("owner", password, "postgres") })
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
	const debian, user = "mariadb-server", "mysql"
	install := servertest.Program(t, debian, "mariadb-install-db")
	mariadbd := servertest.Program(t, debian, "mariadbd", "/usr/sbin/mariadbd")
	dir := servertest.Dir(t, user)
	port := servertest.Port(t)
	s := &server{dialect: sqllease.MySQL, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	done := filepath.Join(dir, "initialized")
	servertest.Start(t, servertest.Command{
		Path: "/bin/sh", User: user, Dir: dir,
		Args: []string{"-c", `"$0" "$@" && touch initialized && exec sleep 600`, install, "--no-defaults",
			"--datadir=" + filepath.Join(dir, "data"), "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"},
	}, func() error {
		_, err := os.Stat(done)
		return err
	}).Kill()
	s.Process = servertest.Start(t, servertest.Command{
		Path: mariadbd, User: user, Dir: dir,
		Args: []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
			"--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"), "--skip-name-resolve", "--max-connections=1000",
			"--max-connect-errors=1000000", "--tmpdir=" + dir},
	}, func() error { return s.answers("root", "", "") })
	db, err := sql.Open("mysql", "root@tcp("+s.addr+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s.run(t, db, `CREATE DATABASE app`, `CREATE USER app IDENTIFIED BY 'se\'cret'`, `GRANT ALL ON app.* TO app`,
		`CREATE USER reader IDENTIFIED BY 'reader'`)
	return s
}

// answers reports whether the server lets a user in.
func (s *server) answers(user, password, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	driver, dsn := "mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, s.addr, name)
	if s.dialect == sqllease.PostgreSQL {
		driver, dsn = "pgx", fmt.Sprintf("host=127.0.0.1 port=%s user=%s password='%s' dbname=%s sslmode=disable",
			s.addr[strings.LastIndexByte(s.addr, ':')+1:], user, strings.ReplaceAll(password, "'", `\'`), name)
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
	s := startPostgres(t)
	s.fits(t)
	t.Run("CommitThatFails", func(t *testing.T) { commitFails(t, s) })
}

func TestMariaDB(t *testing.T) {
	s := startMariaDB(t)
	s.fits(t)
	t.Run("AutocommitOff", func(t *testing.T) { autocommitOff(t, s) })
}

// fits runs what holds for both servers.
func (s *server) fits(t *testing.T) {
	s.database().fits(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *server)
	}{
		{"RefusedUsers", refusedUsers},
		{"OneRoundTripPerRenewal", oneRoundTrip},
		{"OtherSettings", otherSettings},
		{"LockIsNoConflict", rowLocked},
		{"ServerThatHangs", serverAway},
		{"ServerThatIsGone", serverGone},
		{"NodesAfterTheServerWasKilled", nodesAfterKill},
		{"Fleet", fleets},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}
