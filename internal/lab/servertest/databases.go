//go:build unix && go1.25

package servertest

import (
	"bufio"
	"cmp"
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
)

// Postgres starts a PostgreSQL server with the superuser "owner", who needs the password if it is
// not empty, and waits until ready returns nil for the server's address. args are added to the
// server's.
func Postgres(t testing.TB, password string, ready func(addr string) error, args ...string) (addr string, p *Process) {
	t.Helper()
	const debian, user = "postgresql", "postgres"
	initdb := Program(t, debian, "/usr/lib/postgresql/*/bin/initdb", "initdb")
	postgres := Program(t, debian, "/usr/lib/postgresql/*/bin/postgres", "postgres")
	dir, port := Dir(t, user), Port(t)
	data := filepath.Join(dir, "data")
	initArgs := []string{"-D", data, "-U", "owner", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"}
	if password != "" {
		secret := filepath.Join(dir, "secret")
		Do(t, os.WriteFile(secret, []byte(password), 0o644))
		// With scram-sha-256, each connection would cost 3 ms of CPU time more.
		initArgs = append(initArgs, "-A", "md5", "--pwfile", secret)
	}
	finish(t, Command{Path: initdb, User: user, Dir: dir, Args: initArgs})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return addr, Start(t, Command{
		Path: postgres, User: user, Dir: dir,
		Args: append([]string{"-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1"}, args...),
	}, func() error { return ready(addr) })
}

// PostgresStandby starts a hot standby of a server that Postgres has started without a password, as
// Postgres does.
func PostgresStandby(t testing.TB, primary string, ready func(addr string) error, args ...string) (addr string, p *Process) {
	t.Helper()
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

// MariaDB starts a MariaDB server with the user "root", who needs no password, and waits until
// ready returns nil for the server's address. args are added to the server's.
func MariaDB(t testing.TB, ready func(addr string) error, args ...string) (addr string, p *Process) {
	t.Helper()
	const debian, user = "mariadb-server", "mysql"
	install := Program(t, debian, "mariadb-install-db")
	mariadbd := Program(t, debian, "mariadbd", "/usr/sbin/mariadbd")
	dir, port := Dir(t, user), Port(t)
	common := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + dir, "--skip-name-resolve",
		"--innodb-log-file-size=8M"}
	finish(t, Command{Path: install, User: user, Dir: dir, Args: append(common[:len(common):len(common)],
		"--auth-root-authentication-method=normal")})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	in := func(name string) string { return filepath.Join(dir, name) }
	return addr, Start(t, Command{
		Path: mariadbd, User: user, Dir: dir,
		Args: append(append(common[:len(common):len(common)], "--bind-address=127.0.0.1", fmt.Sprint("--port=", port),
			"--socket="+in("s"), "--pid-file="+in("pid")), args...),
	}, func() error { return ready(addr) })
}

// Redis starts a Redis server. It saves nothing to disk, unless args say so.
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

// finish runs a command to its end.
func finish(t testing.TB, c Command) {
	t.Helper()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.SysProcAttr = c.Dir, attributes(credential(t, c.User))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c.Path, err, out)
	}
}
