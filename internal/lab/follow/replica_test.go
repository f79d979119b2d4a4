//go:build unix

package follow_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

// cluster starts a primary and its standby, and returns them with the primary's process.
func cluster(t *testing.T) (primary, standby database, p *servertest.Process) {
	dsn := func(addr string) string { return "postgres://owner@" + addr + "/postgres?sslmode=disable" }
	ready := func(addr string) error { return servertest.Open(t, "pgx", dsn(addr)).Ping() }
	at, p := servertest.Postgres(t, "", ready, "-c", "max_connections=200")
	copied, _ := servertest.PostgresStandby(t, at, ready, "-c", "max_connections=200")
	open := func(addr string) database {
		return database{servertest.Open(t, "pgx", dsn(addr)), follow.PostgreSQL, "pgx", dsn(addr)}
	}
	return open(at), open(copied), p
}

// caughtUp waits until the standby has what the primary has now.
func caughtUp(t *testing.T, primary, standby database) {
	var at string
	require.NoError(t, primary.QueryRow(`SELECT pg_current_wal_lsn()`).Scan(&at))
	servertest.Await(t, func() error {
		var there bool
		err := standby.QueryRow(`SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, at).Scan(&there)
		if err == nil && !there {
			err = errors.New("the standby lags")
		}
		return err
	})
}

// A replica that lags shows no span before it shows every row of it. If it is promoted without the last commits, the
// reader says so and goes on from its fence: no row is missed.
func TestReplicaThatLagsAndIsPromoted(t *testing.T) {
	t.Parallel()
	db, replica, server := cluster(t)
	f, p := prepare(t, db), leased(t)
	caughtUp(t, db, replica)
	o := fast()
	o.Replica = replica.DB
	r := follow.NewReader(p.store, db.DB, f, 0, o)
	var cursor snowflake.ID
	read := func(ctx context.Context) (got []snowflake.ID, err error) {
		return got, r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			got, cursor = ids(t, tx, s), s.UpTo
			return nil
		})
	}
	id := p.id(t)
	db.exec(t, insert(id))
	got, err := read(t.Context())
	require.NoError(t, err)
	require.Equal(t, []snowflake.ID{id}, got)

	replica.exec(t, `SELECT pg_wal_replay_pause()`)
	first, second := p.id(t), p.id(t)
	db.exec(t, insert(second))
	db.exec(t, insert(first))
	until(t, follow.NewReader(p.store, db.DB, f, cursor, fast()), second) // the primary's fence is above them
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = read(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	replica.exec(t, `SELECT pg_wal_replay_resume()`)
	got, err = read(t.Context())
	require.NoError(t, err)
	require.Equal(t, []snowflake.ID{first, second}, got)

	// The replica serves rows while the primary is away.
	id = p.id(t)
	db.exec(t, insert(id))
	until(t, follow.NewReader(p.store, db.DB, f, cursor, fast()), id)
	caughtUp(t, db, replica)
	server.Kill()
	got, err = read(t.Context())
	require.NoError(t, err)
	require.Equal(t, []snowflake.ID{id}, got)
	server.Restart()

	// The primary commits what the standby does not get.
	var sender int
	replica.exec(t, `ALTER SYSTEM SET primary_conninfo = ''`)
	replica.exec(t, `SELECT pg_reload_conf()`)
	servertest.Await(t, func() error {
		if err := db.QueryRow(`SELECT pid FROM pg_stat_replication`).Scan(&sender); err != sql.ErrNoRows {
			return errors.New("the standby still receives")
		}
		return nil
	})
	inFlight, lost := p.id(t), p.id(t)
	servertest.Await(t, func() error { // the pool has connections of before
		_, err := db.Exec(insert(lost))
		return err
	})
	r = follow.NewReader(p.store, db.DB, f, cursor, fast())
	got, err = read(t.Context())
	require.NoError(t, err)
	require.Equal(t, []snowflake.ID{lost}, got)
	server.Kill()
	replica.exec(t, `SELECT pg_promote()`)
	tx, err := replica.Begin()
	require.NoError(t, err)
	_, err = tx.Exec(insert(inFlight)) // its writer tries again
	require.NoError(t, err)
	require.NoError(t, f.Check(t.Context(), tx, inFlight))
	require.NoError(t, tx.Commit())
	r = follow.NewReader(p.store, replica.DB, f, cursor, fast())
	_, err = read(t.Context())
	require.ErrorIs(t, err, follow.ErrRewound)
	got, err = read(t.Context())
	require.NoError(t, err)
	require.Equal(t, []snowflake.ID{inFlight}, got)
}
