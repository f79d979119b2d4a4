//go:build unix && go1.25

package servertest

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
)

// PostgresURL returns the URL of the superuser's database on a server of Postgres without a
// password.
func PostgresURL(addr string) string { return "postgres://owner@" + addr + "/postgres?sslmode=disable" }

// MariaDBDSN returns the data source name of the user "root" on a server of MariaDB, for the driver
// of MySQL. It ends where the database's name begins.
func MariaDBDSN(addr string) string { return "root@tcp(" + addr + ")/" }

// pings returns ready or, if it is nil, a function that returns nil if a database answers. The test
// imports the driver.
func pings(ready func(addr string) error, driver string, dsn func(addr string) string) func(addr string) error {
	if ready != nil {
		return ready
	}
	return func(addr string) error {
		db, err := sql.Open(driver, dsn(addr))
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Ping()
	}
}

// Postgres starts a PostgreSQL server with the superuser "owner" and this password, if it is not
// empty, and waits until ready returns nil for the server's address or, if ready is nil, until the
// driver pgx connects to PostgresURL. args are added to the server's arguments.
func Postgres(t testing.TB, password string, ready func(addr string) error, args ...string) (addr string, p *Process) {
	t.Helper()
	ready = pings(ready, "pgx", PostgresURL)
	const debian, user = "postgresql", "postgres"
	initdb := Program(t, debian, "/usr/lib/postgresql/*/bin/initdb", "initdb")
	postgres := Program(t, debian, "/usr/lib/postgresql/*/bin/postgres", "postgres")
	dir, port := Dir(t, user), Port(t)
	data := filepath.Join(dir, "data")
	make := Command{Path: initdb, User: user, Dir: dir, Args: []string{"-D", data, "-U", "owner", "-A", "trust", "--no-sync",
		"--no-locale", "-E", "UTF8"}}
	if password == "" {
		once(t, make, data)
	} else {
		secret := filepath.Join(dir, "secret")
		Do(t, os.WriteFile(secret, []byte(password), 0o644))
		// With scram-sha-256, each connection would take 3 ms more of CPU time.
		make.Args = append(make.Args, "-A", "md5", "--pwfile", secret)
		finish(t, make)
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return addr, Start(t, Command{
		Path: postgres, User: user, Dir: dir,
		Args: append([]string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1"}, args...),
	}, func() error { return ready(addr) })
}

// PostgresStandby is like Postgres, but starts a hot standby of a server that Postgres has started
// without a password.
func PostgresStandby(t testing.TB, primary string, ready func(addr string) error, args ...string) (addr string, p *Process) {
	t.Helper()
	ready = pings(ready, "pgx", PostgresURL)
	const debian, user = "postgresql", "postgres"
	backup := Program(t, debian, "/usr/lib/postgresql/*/bin/pg_basebackup", "pg_basebackup")
	postgres := Program(t, debian, "/usr/lib/postgresql/*/bin/postgres", "postgres")
	dir, port := Dir(t, user), Port(t)
	data := filepath.Join(dir, "data")
	finish(t, Command{
		Path: backup,
		User: user,
		Dir:  dir,
		Args: []string{"-D", data, "-d", "postgres://owner@" + primary, "-R", "-c", "fast", "--no-sync"},
	})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return addr, Start(t, Command{
		Path: postgres, User: user, Dir: dir,
		Args: append([]string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1"}, args...),
	}, func() error { return ready(addr) })
}

// MariaDB starts a MariaDB server with the user "root", without a password, and waits until ready
// returns nil for the server's address or, if ready is nil, until the driver mysql connects to
// MariaDBDSN. args are added to the server's arguments.
func MariaDB(t testing.TB, ready func(addr string) error, args ...string) (addr string, p *Process) {
	t.Helper()
	ready = pings(ready, "mysql", MariaDBDSN)
	const debian, user = "mariadb-server", "mysql"
	install := Program(t, debian, "mariadb-install-db")
	mariadbd := Program(t, debian, "mariadbd", "/usr/sbin/mariadbd")
	dir, port := Dir(t, user), Port(t)
	data := filepath.Join(dir, "data")
	common := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--skip-name-resolve", "--innodb-log-file-size=8M"}
	once(t, Command{Path: install, User: user, Dir: dir, Args: append(common[:len(common):len(common)],
		"--auth-root-authentication-method=normal")}, data)
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	in := func(name string) string { return filepath.Join(dir, name) }
	return addr, Start(t, Command{
		Path: mariadbd, User: user, Dir: dir,
		Args: append(append(common[:len(common):len(common)], "--bind-address=127.0.0.1", fmt.Sprint("--port=", port),
			"--socket="+in("s"), "--pid-file="+in("pid")), args...),
	}, func() error { return ready(addr) })
}

// Redis starts a Redis server. By default it saves nothing to disk.
func Redis(t testing.TB, args ...string) (addr string, p *Process) {
	t.Helper()
	path, port := Program(t, "redis-server", "redis-server"), strconv.Itoa(Port(t))
	addr = net.JoinHostPort("127.0.0.1", port)
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", Dir(t, ""), "--save", ""}, args...)
	return addr, Start(t, Command{Path: path, Args: args}, func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		fmt.Fprint(conn, "PING\r\n")
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH") {
			return nil
		}
		return cmp.Or(err, errors.New(answer))
	})
}

// once runs a command that creates a data directory in its Dir, which takes up to a second of CPU
// time. Later calls with this program and these arguments use a copy in the user's cache directory.
func once(t testing.TB, c Command, data string) {
	t.Helper()
	program := Must(os.Stat(c.Path))(t)
	key := sha256.Sum256(fmt.Appendln(nil, c.Path, program.Size(), program.ModTime(), strings.ReplaceAll(strings.Join(c.Args, " "), c.Dir, "")))
	kept, err := installed.Path(fmt.Sprintf("data-%x", key[:8]))
	if err != nil { // there is no home directory
		finish(t, c)
		return
	}
	if _, err := os.Stat(kept); err == nil {
		finish(t, Command{Path: "/bin/cp", Args: []string{"-a", kept, data}})
		return
	}
	finish(t, c)
	Do(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	temp := Must(os.MkdirTemp(filepath.Dir(kept), "new"))(t)
	finish(t, Command{Path: "/bin/cp", Args: []string{"-a", data, temp}})
	_ = os.Rename(filepath.Join(temp, filepath.Base(data)), kept) // fails if another test was faster
	Do(t, os.RemoveAll(temp))
}

// finish runs a command to its end.
func finish(t testing.TB, c Command) {
	t.Helper()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.SysProcAttr = c.Dir, attributes(credential(t, c.User))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c.Path, err, out)
	}
}
