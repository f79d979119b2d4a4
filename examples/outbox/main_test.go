//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// childEnv says what the test binary is, if not the tests: the program, or a process of the trial.
const childEnv = "OUTBOX_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "program":
		main()
	case "writer":
		newChild().writeRows()
	case "poller":
		newChild().readRows()
	default:
		os.Exit(servertest.Main(m, nil))
	}
}

var postgresURL = servertest.Shared(func(t testing.TB) string {
	url := func(addr string) string { return "postgres://owner@" + addr + "/postgres?sslmode=disable" }
	addr, _ := servertest.Postgres(t, "", func(addr string) error { return servertest.Open(t, "pgx", url(addr)).Ping() }, "-c", "max_connections=500")
	return url(addr)
})

// postgres returns the URL of an empty schema.
func postgres(t *testing.T) string {
	schema := servertest.NewSpace()
	url := postgresURL(t) + "&search_path=" + schema
	_, err := servertest.Open(t, "pgx", url).Exec("CREATE SCHEMA " + schema)
	require.NoError(t, err)
	return url
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
	dsn := func(addr string) string { return "root@tcp(" + addr + ")/test" }
	addr, _ := servertest.MariaDB(t, func(addr string) error { return servertest.Open(t, "mysql", dsn(addr)).Ping() })
	try(t, "-for", during, "-mysql", dsn(addr))
}

var output = regexp.MustCompile(`^rows committed:      (\d+), and (\d+) stopped by the fence
id > last:           \d+ read, (\d+) lost
up to the watermark: (\d+) read, 0 lost; it was at most \S+ behind
of that:             the slowest clock 500ms, the longest transaction \S+
$`)

// during is for how long rows are written.
var during = depth.Of(2*time.Second, 10*time.Second).String()

// program is this test binary as the program.
func program(t *testing.T, args ...string) *exec.Cmd {
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), childEnv+"=program")
	return cmd
}

func TestUsageWithoutADatabase(t *testing.T) {
	cmd := program(t)
	out, _ := cmd.CombinedOutput()
	assert.Equal(t, 2, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "give either -postgres or -mysql")
	assert.Contains(t, string(out), "\n  -mysql")
}

// The poller with id > last loses rows, and the other one loses none.
func try(t *testing.T, args ...string) {
	cmd := program(t, args...)
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

// A writer whose lease expires goes on when the store is back.
func TestWriterGoesOnWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	db := servertest.Open(t, "pgx", postgres(t))
	leases, err := sqllease.New(db, sqllease.PostgreSQL, nil)
	require.NoError(t, err)
	store := link.To(leases)
	o := &outbox{DB: db, dialect: sqllease.PostgreSQL, store: store, window: time.Second / 2, work: 10 * time.Millisecond}
	o.createTables()
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { o.write(ctx, 0, time.Hour) })
	defer writer.Wait()
	defer cancel()
	writes := func() {
		t.Helper()
		before := o.committed.Load()
		servertest.Await(t, func() error {
			if o.committed.Load() == before {
				return errors.New("nothing is written")
			}
			return nil
		})
	}
	writes()
	store.Cut(true)
	time.Sleep(2 * o.window)
	store.Cut(false)
	writes()
}
