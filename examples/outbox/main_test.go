package main

import (
	"context"
	"database/sql"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

func pings(driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Ping()
}

// postgres starts a server and returns the URL of its database.
func postgres(t *testing.T) string {
	dsn := func(addr string) string { return "postgres://owner:secret@" + addr + "/postgres?sslmode=disable" }
	addr, _ := servertest.Postgres(t, "secret", func(addr string) error { return pings("pgx", dsn(addr)) })
	return dsn(addr)
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := postgres(t)
	db := servertest.Open(t, "pgx", dsn)
	runs := [][]string{nil}
	if depth.Full() { // for docs/watermark.md: how far behind the watermark is
		runs = append(runs, []string{"-floor", "0"}, []string{"-work", "50ms"}, []string{"-floor", "0", "-work", "50ms"})
	}
	for _, flags := range runs {
		try(t, append(flags, "-for", during, "-postgres", dsn)...)
		_, err := db.Exec(`DROP TABLE outbox, outbox_mark`)
		require.NoError(t, err)
	}
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	dsn := func(addr, name string) string { return "root@tcp(" + addr + ")/" + name }
	addr, _ := servertest.MariaDB(t, func(addr string) error { return pings("mysql", dsn(addr, "")) })
	db := servertest.Open(t, "mysql", dsn(addr, ""))
	_, err := db.Exec(`CREATE DATABASE app`)
	require.NoError(t, err)
	try(t, "-for", during, "-mysql", dsn(addr, "app"))
}

var output = regexp.MustCompile(`^rows committed:      (\d+), and (\d+) stopped by the fence
id > last:           \d+ read, (\d+) lost
up to the watermark: (\d+) read, 0 lost; it was at most \S+ behind
of that:             the slowest clock 500ms, the longest transaction \S+
$`)

// during is as long as one transaction of the writer that the fence stops.
var during = depth.Of(5*time.Second, 10*time.Second).String()

// build builds the program.
func build(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "outbox.exe") // Windows needs the ending
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, "%v: %s", err, out)
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
	require.NoError(t, err, "%v, after it printed:\n%s%s", err, out, &errors)
	t.Logf("%q\n%s", args[:len(args)-1], out)
	caught := output.FindSubmatch(out)
	require.NotNil(t, caught, "it printed something else")
	for i, what := range []string{"rows were written", "transactions were stopped", "rows were lost"} {
		n, _ := strconv.Atoi(string(caught[i+1]))
		assert.NotZero(t, n, "no %s", what)
	}
}

// away is a store that is away from one time to another.
type away struct {
	*sqllease.Store
	from, to time.Time
}

var errAway = errors.New("the store is away")

func (s *away) Get(ctx context.Context, key string) (lease.Entry, error) {
	if now := time.Now(); now.After(s.from) && now.Before(s.to) {
		return lease.Entry{}, errAway
	}
	return s.Store.Get(ctx, key)
}

func (s *away) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	if now := time.Now(); now.After(s.from) && now.Before(s.to) {
		return lease.Entry{}, errAway
	}
	return s.Store.Put(ctx, key, old, value)
}

// A writer whose lease expires goes on when the store is back.
func TestWriterGoesOnWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	db := servertest.Open(t, "pgx", postgres(t))
	leases, err := sqllease.New(db, sqllease.PostgreSQL, nil)
	check(err)
	begun := time.Now()
	store := &away{leases, begun.Add(time.Second), begun.Add(5 * time.Second)} // longer than the window of 3 s
	o := &outbox{DB: db, dialect: sqllease.PostgreSQL, store: store, work: 10 * time.Millisecond}
	o.createTables()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	o.write(ctx, 0)
	var inTime, late int
	for _, id := range o.ids(`SELECT id FROM outbox`) {
		switch at := snowflake.Decode(id).Time.Add(slowest); { // the writer's clock is behind
		case at.Before(store.from):
			inTime++
		case at.After(store.to):
			late++
		}
	}
	require.NotZero(t, inTime)
	assert.NotZero(t, late)
}
