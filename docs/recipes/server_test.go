//go:build unix

package recipes

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

// startPostgres returns the URL of a server of the test's own.
func startPostgres(t testing.TB) string {
	const debian, user = "postgresql", "postgres"
	initdb := servertest.Program(t, debian, "/usr/lib/postgresql/*/bin/initdb", "initdb")
	postgres := servertest.Program(t, debian, "/usr/lib/postgresql/*/bin/postgres", "postgres")
	dir, port := servertest.Dir(t, user), servertest.Port(t)
	data := filepath.Join(dir, "data")
	initialize(t, user, dir, initdb, "-D", data, "-U", "owner", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
	url := fmt.Sprintf("postgres://owner@127.0.0.1:%d/postgres?sslmode=disable", port)
	servertest.Start(t, servertest.Command{
		Path: postgres, User: user, Dir: dir,
		Args: []string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1"},
	}, open(t, "pgx", url).Ping)
	return url
}

// startMariaDB returns the DSN of a server of the test's own.
func startMariaDB(t testing.TB) string {
	const debian, user = "mariadb-server", "mysql"
	install := servertest.Program(t, debian, "mariadb-install-db")
	mariadbd := servertest.Program(t, debian, "mariadbd", "/usr/sbin/mariadbd")
	dir, port := servertest.Dir(t, user), servertest.Port(t)
	data := filepath.Join(dir, "data")
	initialize(t, user, dir, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-name-resolve")
	dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test?parseTime=true", port)
	servertest.Start(t, servertest.Command{
		Path: mariadbd, User: user, Dir: dir,
		Args: []string{"--no-defaults", "--datadir=" + data, "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port),
			"--socket=" + filepath.Join(dir, "s"), "--pid-file=" + filepath.Join(dir, "pid"), "--skip-name-resolve", "--tmpdir=" + dir},
	}, open(t, "mysql", dsn).Ping)
	return dsn
}

// initialize runs the command that makes a server's data.
func initialize(t testing.TB, user, dir, path string, args ...string) {
	t.Helper()
	servertest.Start(t, servertest.Command{
		Path: "/bin/sh", User: user, Dir: dir,
		Args: append([]string{"-c", `"$0" "$@" && touch initialized && exec sleep 600`, path}, args...),
	}, func() error {
		_, err := os.Stat(filepath.Join(dir, "initialized"))
		return err
	}).Kill()
}

func open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
