//go:build unix

package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/audit/leases"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// report is a report as programs read it.
type report struct {
	audit.Report
	Leases leases.Report `json:"leases"`
}

// The store is on PostgreSQL or Redis, and the IDs are in PostgreSQL or MariaDB. Two generators
// have no lease: one has a worker ID that was never leased, and one uses that of a holder which has
// released it.
func TestAuditFindsWhoHasNoLease(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (store, database string, wipe func()){
		"PostgreSQL": func(t *testing.T) (string, string, func()) {
			addr, _ := servertest.Postgres(t, "", nil)
			url := servertest.PostgresURL(addr)
			return url + "&table=leases", url, func() {
				db, err := stores.OpenDB(url)
				require.NoError(t, err)
				defer db.Close()
				_, err = db.Exec("TRUNCATE leases")
				require.NoError(t, err)
			}
		},
		"Redis and MariaDB": func(t *testing.T) (string, string, func()) {
			db, _ := servertest.MariaDB(t, nil)
			addr, _ := servertest.Redis(t)
			return "redis://" + addr, "mysql://root@" + db + "/test", func() {
				client := redis.NewClient(&redis.Options{Addr: addr})
				defer client.Close()
				require.NoError(t, client.FlushAll(t.Context()).Err())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, database, wipe := start(t)
			testAudit(t, made(t, store), database, wipe)
		})
	}
}

// orders opens a database, and creates the table orders.
func orders(t *testing.T, url string) *sql.DB {
	t.Helper()
	db := servertest.Must(stores.OpenDB(url))(t)
	t.Cleanup(func() { db.Close() })
	servertest.Must(db.Exec("CREATE TABLE orders (id BIGINT PRIMARY KEY, item VARCHAR(9))"))(t)
	return db
}

func testAudit(t *testing.T, store, database string, wipe func()) {
	db, s := orders(t, database), openStore(t, store)
	acquire := func(owner string) (*lease.Lease, func()) {
		l, gen := hold(t, s, lease.Options{Owner: owner, Window: time.Second, First: 5, Count: 2})
		return l, func() { write(t, db, gen, 50) }
	}
	_, first := acquire("one")
	two, second := acquire("two")
	first()
	second()
	honest := 100
	worker := two.Worker()
	require.NoError(t, two.Release(t.Context()))

	query := []string{"audit", "--store", store, "--database", database, "--query",
		"SELECT id FROM orders -- all;", "--batch", "7", "--json"}
	ask := func(status int, args ...string) (r report) {
		t.Helper()
		out, errs, is := runCLI(append(query[:len(query):len(query)], args...)...)
		require.Equal(t, status, is, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &r), out)
		return r
	}
	r := ask(command.OK)
	assert.Equal(t, honest, r.Leases.Held)
	assert.Empty(t, append(append(append(r.Leases.Strangers, r.Leases.NotReported...), r.Leases.Forgotten...), r.Leases.Earlier...))
	upTo := r.UpTo

	// A batch reads the index from its first row on, and not all rows before or after it.
	var plan strings.Builder
	f := auditFlags{query: "SELECT id FROM orders", batch: 7}
	steps := servertest.Must(db.Query("EXPLAIN " + f.statement(upTo)))(t)
	names, err := steps.Columns()
	require.NoError(t, err)
	for steps.Next() {
		cells := make([]any, len(names))
		for i := range cells {
			cells[i] = new(sql.NullString)
		}
		require.NoError(t, steps.Scan(cells...))
		for _, cell := range cells {
			fmt.Fprint(&plan, cell.(*sql.NullString).String, " ")
		}
	}
	require.NoError(t, steps.Close())
	assert.NotRegexp(t, "(?i)derived|CTE|Seq Scan", plan.String())
	assert.Regexp(t, "range|Index", plan.String())

	// MariaDB compares texts with numbers as if both were rounded, so rows would be passed over.
	_, err = db.Exec("CREATE TABLE texts (id VARCHAR(20) PRIMARY KEY)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO texts VALUES ('90'), ('117919502066282496'), ('117919502066282497')")
	require.NoError(t, err)
	requireFails(t, command.Failure, "; continue with --from 0\n", "--store", store, "--database", database, "--query", "SELECT id FROM texts")

	// Two programs without a lease. The audit finds what they issue at once.
	for _, rogue := range []int{worker, 900} {
		gen := servertest.Must(snowflake.New(rogue, nil))(t)
		write(t, db, gen, 3)
	}
	time.Sleep(1500 * time.Millisecond) // a holding begins up to a window before its holder
	_, third := acquire("three")        // has the worker ID of two
	third()
	first()
	honest += 100
	for _, from := range []string{"", fmt.Sprint(upTo)} {
		r = ask(command.Failure, "--from", from)
		require.Len(t, r.Leases.Strangers, 2)
		assert.Equal(t, worker, r.Leases.Strangers[0].Worker)
		assert.Equal(t, 3, r.Leases.Strangers[0].IDs)
		require.NotNil(t, r.Leases.Strangers[0].Before)
		assert.Equal(t, "two", r.Leases.Strangers[0].Before.Owner)
		require.NotNil(t, r.Leases.Strangers[0].After)
		assert.Equal(t, "three", r.Leases.Strangers[0].After.Owner)
		assert.Equal(t, 900, r.Leases.Strangers[1].Worker)
		assert.Nil(t, r.Leases.Strangers[1].Before)
	}
	assert.Equal(t, 100, r.Leases.Held)
	assert.Equal(t, 3, ask(command.Failure, "--worker", "900").Leases.KeptOut[0].IDs)
	assert.Equal(t, 100, ask(command.Failure, "--worker", fmt.Sprint(worker)).Leases.Leased[0].IDs)
	assert.Equal(t, honest+6, ask(command.OK, "--since", "2094-01-01").Leases.Passed+honest+6)

	prom := filepath.Join(t.TempDir(), "snowflake.prom")
	ask(command.Failure, "--metrics-file", prom)
	metrics := servertest.Must(os.ReadFile(prom))(t)
	assert.Contains(t, string(metrics), "\nsnowflake_audit_strangers 6\n")
	assert.Contains(t, string(metrics), fmt.Sprintf("\nsnowflake_audit_ids %d\n", honest+6))
	assert.Contains(t, string(metrics), "\nsnowflake_audit_completed_timestamp_seconds ")

	// The same IDs from a file, in any order and form.
	var text strings.Builder
	rows, err := db.Query("SELECT id FROM orders ORDER BY id DESC")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id snowflake.ID
		require.NoError(t, rows.Scan(&id))
		fmt.Fprintln(&text, id)
	}
	file := filepath.Join(t.TempDir(), "ids")
	require.NoError(t, os.WriteFile(file, []byte("id\n"+text.String()), 0o600))
	out, _, status := runCLI("audit", "--store", store, file)
	require.Equal(t, command.Failure, status)
	assert.Contains(t, out, fmt.Sprintf("%d of %d IDs were issued by a holder of their worker ID", honest, honest+6))
	assert.Contains(t, out, "WRONG: IDs that no process with a lease can have issued: 6\n")
	assert.Contains(t, out, "    before them two (")

	// After a loss of all entries, the audit counts IDs as forgotten, and none as a stranger's.
	wipe()
	await(t, "the holders put their records back", func() bool {
		holders, err := lease.Holders(t.Context(), s)
		return err != nil && len(holders) == 2
	})
	first()
	r = ask(command.OK)
	assert.Equal(t, honest+50, r.Leases.Held, "the record of three has the holding of two")
	assert.Equal(t, 6, leases.Count(r.Leases.Forgotten))
}

// write inserts rows. If the fence has passed the ID of a row, or the server is away, the row gets
// another ID.
func write(t *testing.T, db *sql.DB, gen *snowflake.Generator, n int) {
	t.Helper()
	for range n {
		await(t, "a row", func() bool {
			id, err := gen.NextIDContext(t.Context())
			if err == nil {
				_, err = db.Exec(fmt.Sprintf("INSERT INTO orders VALUES (%d, 'x')", id))
			}
			return err == nil
		})
	}
}

// requireFails audits, and requires an exit status, and an error that says something.
func requireFails(t *testing.T, want int, says string, args ...string) {
	t.Helper()
	out, errs, status := runCLI(append([]string{"audit"}, args...)...)
	require.Equal(t, want, status, args)
	require.Contains(t, out+errs, says)
}

// In SQLite, texts in a column without a type are greater than all numbers: the first rows would be
// read again and again.
func TestAuditOfTextsEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "texts")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	database := "sqlite:" + file
	db, err := stores.OpenDB(database)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE texts (id)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO texts VALUES ('5'), ('6')")
	require.NoError(t, err)
	for _, batch := range []string{"1", "2"} {
		requireFails(t, command.Failure, "no numbers; continue with --from", "--store", made(t, "file:"+t.TempDir()),
			"--database", database, "--query", "SELECT id FROM texts", "--batch", batch)
	}
}

// A program without a lease often has another layout, too.
func TestAuditFindsIDsOfAnotherLayout(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, lease.Init(t.Context(), lease.File(dir), snowflake.JSSafeLayout()))
	file := filepath.Join(dir, "ids")
	require.NoError(t, os.WriteFile(file, []byte("117919502066282496\n"), 0o600))
	requireFails(t, command.Failure, "IDs that are not of the layout of the leases: 1", "--store", "file:"+dir, file)
}

// Whoever alerts by the metrics learns that lines were not audited: the timestamp stands still.
func TestAuditOfUnreadableLinesIsNotCompleted(t *testing.T) {
	store, dir := made(t, "file:"+t.TempDir()), t.TempDir()
	for text, completed := range map[string]bool{"5\n6\n": true, "5\nx\n6\n": false} {
		file, metrics := filepath.Join(dir, "ids"), filepath.Join(dir, fmt.Sprint(completed, ".prom"))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, errs, _ := runCLI("audit", "--store", store, "--metrics-file", metrics, file)
		_, err := os.Stat(metrics)
		assert.Equal(t, completed, err == nil, "%s%s", out, errs)
	}
}

func TestAuditRefuses(t *testing.T) {
	store := made(t, "file:"+t.TempDir())
	file := filepath.Join(t.TempDir(), "ids")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for args, says := range map[string]string{
		"--query x":                                          "belong together",
		"--database sqlite:x":                                "belong together",
		"--query x --database sqlite:x " + file:              "not both",
		"--from 5 " + file:                                   "--from needs --query",
		"--query x --database sqlite:x --from y":             "--from:",
		"--query x --database sqlite:x --batch 0":            "--batch",
		"--since y " + file:                                  "--since:",
		"--query x --database redis://x":                     "it names no database",
		"--worker x " + file:                                 "--worker",
		"--follow f " + file:                                 "--follow needs --query",
		"--query x --database sqlite:x --follow f --every 0": "--every",
		"--query x --database sqlite:x --follow f-g":         "--follow:",
	} {
		requireFails(t, command.Usage, says, strings.Fields("--store "+store+" "+args)...)
	}
	for args, says := range map[string]string{file: "there is nothing to audit", file + "x": "no such file",
		"--query x --database sqlite:" + file: "continue with --from"} {
		requireFails(t, command.Failure, says, strings.Fields("--store "+store+" "+args)...)
	}
}
