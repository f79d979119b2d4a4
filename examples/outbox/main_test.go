package main

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

func pings(driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Ping()
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := func(addr string) string { return "postgres://owner:secret@" + addr + "/postgres?sslmode=disable" }
	addr, _ := servertest.Postgres(t, "secret", func(addr string) error { return pings("pgx", dsn(addr)) })
	db := servertest.Open(t, "pgx", dsn(addr))
	runs := [][]string{nil}
	if depth.Full() { // for docs/watermark.md: how far behind the watermark is
		runs = append(runs, []string{"-floor", "0"}, []string{"-work", "50ms"}, []string{"-floor", "0", "-work", "50ms"})
	}
	for _, flags := range runs {
		try(t, append(flags, "-postgres", dsn(addr))...)
		if _, err := db.Exec(`DROP TABLE outbox, outbox_mark`); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	dsn := func(addr, name string) string { return "root@tcp(" + addr + ")/" + name }
	addr, _ := servertest.MariaDB(t, func(addr string) error { return pings("mysql", dsn(addr, "")) })
	db := servertest.Open(t, "mysql", dsn(addr, ""))
	if _, err := db.Exec(`CREATE DATABASE app`); err != nil {
		t.Fatal(err)
	}
	try(t, "-mysql", dsn(addr, "app"))
}

var output = regexp.MustCompile(`^rows committed:      (\d+), and (\d+) stopped by the fence
id > last:           \d+ read, (\d+) lost
up to the watermark: (\d+) read, 0 lost; it was at most \S+ behind
of that:             the slowest clock 500ms, the longest transaction \S+
$`)

// build builds the program.
func build(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "outbox.exe") // Windows needs the ending
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestUsageWithoutADatabase(t *testing.T) {
	cmd := exec.Command(build(t))
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "give either -postgres or -mysql") || !strings.Contains(string(out), "\n  -mysql") {
		t.Errorf("%d %s", code, out)
	}
}

// The poller with id > last loses rows, and the other one loses none.
func try(t *testing.T, args ...string) {
	cmd := exec.Command(build(t), args...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v, after it printed:\n%s%s", err, out, &errors)
	}
	t.Logf("%q\n%s", args[:len(args)-1], out)
	caught := output.FindSubmatch(out)
	if caught == nil {
		t.Fatal("it printed something else")
	}
	for i, what := range []string{"rows were written", "transactions were stopped", "rows were lost"} {
		if n, _ := strconv.Atoi(string(caught[i+1])); n == 0 {
			t.Errorf("no %s", what)
		}
	}
}
