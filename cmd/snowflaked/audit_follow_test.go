//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/audit/leases"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// following is an audit that follows new rows in the background.
type following struct {
	metrics   string // the file
	out, errs bytes.Buffer
	status    chan int
	stop      context.CancelFunc
}

func followed(t *testing.T, args ...string) *following {
	ctx, stop := context.WithCancel(t.Context())
	f := &following{metrics: filepath.Join(t.TempDir(), "audit.prom"), status: make(chan int, 1), stop: stop}
	args = append([]string{"audit", "--json", "--query", "SELECT id FROM orders", "--batch", "7", "--follow",
		"fence", "--every", "200ms", "--metrics-file", f.metrics}, args...)
	go func() {
		f.status <- called(ctx, args, func(string) (string, bool) { return "", false }, &f.out, &f.errs)
	}()
	return f
}

// await waits until the metrics have these values.
func (f *following) await(t *testing.T, ids, held, strangers int) {
	t.Helper()
	var text []byte
	want := []string{fmt.Sprintf("\nsnowflake_audit_ids %d\n", ids),
		fmt.Sprintf("\nsnowflake_audit_held_ids %d\n", held), fmt.Sprintf("\nsnowflake_audit_strangers %d\n", strangers)}
	require.Eventually(t, func() bool {
		text, _ = os.ReadFile(f.metrics)
		return bytes.Contains(text, []byte(want[0])) && bytes.Contains(text, []byte(want[1])) && bytes.Contains(text, []byte(want[2]))
	}, patience, 20*time.Millisecond, "want %s", want)
}

// end ends the audit as Ctrl-C does.
func (f *following) end(t *testing.T, status int) (r report) {
	t.Helper()
	f.stop()
	require.Equal(t, status, <-f.status, &f.errs)
	require.NoError(t, json.Unmarshal(f.out.Bytes(), &r), &f.out)
	return r
}

// Two holders write under a fence, which a trigger checks. One releases its worker ID, and another
// takes it. The server, which also has the leases, is killed. Then a program without a lease
// writes.
func TestAuditFollowsATable(t *testing.T) {
	t.Parallel()
	addr, server := servertest.Postgres(t, "", nil)
	database := servertest.PostgresURL(addr)
	store := database + "&table=leases"
	db, s := orders(t, database), openStore(t, store)
	require.NoError(t, lease.Init(t.Context(), s, snowflake.DefaultLayout()))
	fence, err := follow.NewFence(follow.PostgreSQL, "fence")
	require.NoError(t, err)

	f := followed(t, "--store", store, "--database", database)
	require.Equal(t, command.Failure, <-f.status, "there is no fence yet")
	assert.Contains(t, f.errs.String(), "continue with --from 0\n")
	require.NoError(t, fence.Create(t.Context(), db))
	require.NoError(t, fence.Trigger(t.Context(), db, "orders", "id"))

	acquire := func(owner string) (*lease.Lease, func()) {
		l, gen := hold(t, s, lease.Options{Owner: owner, Window: 3 * time.Second, FloorEvery: 100 * time.Millisecond, First: 5, Count: 2})
		return l, func() {
			t.Helper()
			write(t, db, gen, 30)
		}
	}
	_, first := acquire("one")
	two, second := acquire("two")
	first()
	second()
	f = followed(t, "--store", store, "--database", database)
	f.await(t, 60, 60, 0)
	first()
	require.NoError(t, two.Release(t.Context()))
	_, third := acquire("three")
	third()
	f.await(t, 120, 120, 0)
	server.Kill()
	time.Sleep(time.Second) // the audit asks for new rows meanwhile
	server.Restart()
	first()
	third()
	f.await(t, 180, 180, 0)

	rogue := servertest.Must(snowflake.New(900, nil))(t)
	write(t, db, rogue, 3)
	first()
	f.await(t, 213, 210, 3)
	r := f.end(t, command.Failure)
	assert.Equal(t, 210, r.Leases.Held)
	assert.Equal(t, 3, leases.Count(r.Leases.Strangers))
	assert.Equal(t, 900, r.Leases.Strangers[0].Worker)
	assert.Contains(t, f.errs.String(), "3 IDs were issued without a lease, up to ")

	// A new audit continues where the last one ended, or from a row that is above the fence.
	first()
	f = followed(t, "--store", store, "--database", database, "--from", r.UpTo.String())
	f.await(t, 30, 30, 0)
	f.end(t, command.OK)
	first()
	var newest string
	require.NoError(t, db.QueryRow("SELECT MAX(id) FROM orders").Scan(&newest))
	f = followed(t, "--store", store, "--database", database, "--from", newest)
	first()
	f.await(t, 30, 30, 0)
	f.end(t, command.OK)
}

// On each kind of database the audit reads the rows that are there, and continues with new ones.
func TestAuditFollowsTablesOfOtherDatabases(t *testing.T) {
	t.Parallel()
	addr, _ := servertest.MariaDB(t, nil)
	file := filepath.Join(t.TempDir(), "orders")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for database, dialect := range map[string]follow.Dialect{
		"mysql://root@" + addr + "/test": follow.MySQL, "sqlite:" + file: follow.SQLite,
	} {
		db := orders(t, database)
		fence := servertest.Must(follow.NewFence(dialect, "fence"))(t)
		require.NoError(t, fence.Create(t.Context(), db))
		dir := t.TempDir()
		l, gen := hold(t, lease.File(dir), lease.Options{Owner: "one", FloorEvery: 100 * time.Millisecond})
		write(t, db, gen, 10)
		f := followed(t, "--store", "file:"+dir, "--database", database)
		f.await(t, 10, 10, 0)
		require.NoError(t, follow.NewWriter(db, fence, l, gen).Do(t.Context(), func(tx *follow.Tx) error {
			id, err := tx.NextID()
			if err == nil {
				_, err = tx.Exec(fmt.Sprintf("INSERT INTO orders VALUES (%d, 'x')", id))
			}
			return err
		}))
		f.await(t, 11, 11, 0)
		f.end(t, command.OK)
	}
}
