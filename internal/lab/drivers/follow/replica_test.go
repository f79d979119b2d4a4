//go:build unix

package follow_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// replica is a replica of a primary, with the SQL of its dialect.
type replica struct {
	database
	at, reached   string   // asks the primary where it is, and the replica whether it is there
	pause, resume string   // what was received is applied later
	part          []string // nothing more is received
	promote       []string
}

// primaryArgs are arguments with which a MariaDB server can have replicas.
var primaryArgs = []string{"--log-bin=log", "--server-id=1"}

// replicate starts a replica of the server of primary, and opens the same database of it.
func replicate(t testing.TB, primary database) *replica {
	r := &replica{database: primary}
	if primary.dialect == follow.PostgreSQL {
		at := strings.Split(strings.Split(primary.dsn, "@")[1], "/")[0]
		addr, _ := servertest.PostgresStandby(t, at, nil, "-c", "max_connections=300", "-c", "max_prepared_transactions=20")
		r.dsn = strings.Replace(primary.dsn, at, addr, 1)
		r.at, r.reached = `SELECT pg_current_wal_lsn()`, `SELECT pg_last_wal_replay_lsn() >= '%s'::pg_lsn`
		r.pause, r.resume = `SELECT pg_wal_replay_pause()`, `SELECT pg_wal_replay_resume()`
		r.part = []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`}
		r.promote = []string{`SELECT pg_promote()`}
	} else {
		addr, _ := servertest.MariaDB(t, nil, "--log-bin=log", "--server-id=2", "--read-only", "--slave-parallel-threads=4")
		start, end := strings.Index(primary.dsn, "(")+1, strings.Index(primary.dsn, ")")
		host, port, _ := strings.Cut(primary.dsn[start:end], ":")
		server := servertest.Open(t, "mysql", servertest.MariaDBDSN(addr))
		for _, s := range []string{
			fmt.Sprintf(`CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1`, host, port),
			`START SLAVE`,
		} {
			servertest.Must(server.Exec(s))(t)
		}
		r.dsn = primary.dsn[:start] + addr + primary.dsn[end:]
		r.at, r.reached = `SELECT @@gtid_binlog_pos`, `SELECT MASTER_GTID_WAIT('%s', 0) = 0`
		r.pause, r.resume = `STOP SLAVE SQL_THREAD`, `START SLAVE SQL_THREAD`
		r.part = []string{`STOP SLAVE IO_THREAD`}
		r.promote = []string{`STOP SLAVE`, `RESET SLAVE ALL`, `SET GLOBAL read_only = 0`}
	}
	r.DB = servertest.Open(t, r.driver, r.dsn)
	return r
}

// catchUp waits until the replica has all commits of the primary.
func (r *replica) catchUp(t testing.TB, primary database) {
	t.Helper()
	var at string
	require.NoError(t, primary.QueryRow(r.at).Scan(&at))
	servertest.Await(t, func() error {
		var there bool
		err := r.QueryRow(fmt.Sprintf(r.reached, at)).Scan(&there)
		if err == nil && !there {
			err = errors.New("the replica lags")
		}
		return err
	})
}

// pauseNowAndThen pauses the replica repeatedly, until ctx ends.
func (r *replica) pauseNowAndThen(t testing.TB, ctx context.Context) {
	defer r.Exec(r.resume)
	for paused := false; ctx.Err() == nil; paused = !paused {
		statement := r.pause
		if paused {
			statement = r.resume
		}
		_, err := r.Exec(statement)
		assert.NoError(t, err)
		select {
		case <-time.After(rand.N(trialWindow)):
		case <-ctx.Done():
		}
	}
}

// A lagging replica has a span only if it has all rows of the span. If it is promoted without the
// last commits, the reader returns ErrRewound, continues from the replica's fence, and misses no
// row.
func TestReplicaThatLagsAndIsPromoted(t *testing.T) {
	starts := map[string]func(t *testing.T) (primary database, server *servertest.Process){
		"PostgreSQL": func(t *testing.T) (database, *servertest.Process) {
			addr, p := servertest.Postgres(t, "", nil, "-c", "max_connections=200")
			dsn := servertest.PostgresURL(addr)
			return database{servertest.Open(t, "pgx", dsn), follow.PostgreSQL, "pgx", dsn}, p
		},
		"MariaDB": func(t *testing.T) (database, *servertest.Process) {
			addr, p := servertest.MariaDB(t, nil, primaryArgs...)
			dsn := servertest.MariaDBDSN(addr)
			servertest.Must(servertest.Open(t, "mysql", dsn).Exec(`CREATE DATABASE shop`))(t)
			return database{servertest.Open(t, "mysql", dsn+"shop"), follow.MySQL, "mysql", dsn + "shop"}, p
		},
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, server := start(t)
			replica := replicate(t, db)
			if name == "PostgreSQL" {
				t.Run("IsAheadOfThePrimary", func(t *testing.T) { testAhead(t, db, replica) })
			}
			testReplica(t, db, server, replica)
		})
	}
}

// testAhead makes a raise visible on a synchronous replica before it is on the primary. A reader of
// the replica does not return ErrRewound, and reads no row twice.
func testAhead(t *testing.T, primary database, standby *replica) {
	primary.exec(t, `CREATE SCHEMA ahead`)
	in := func(db database) database {
		db.dsn += "&search_path=ahead"
		db.DB = servertest.Open(t, db.driver, db.dsn)
		return db
	}
	db, replica := in(primary), *standby
	replica.database = in(replica.database)
	f, p := prepare(t, db), leased(t)
	id := p.id(t)
	db.exec(t, insert(id))
	replica.catchUp(t, db)
	waitsFor := func(standbys string) {
		db.exec(t, `ALTER SYSTEM SET synchronous_standby_names = '`+standbys+`'`)
		db.exec(t, `SELECT pg_reload_conf()`)
		servertest.Await(t, func() error { // until the reload takes effect
			var names string
			if err := db.QueryRow(`SHOW synchronous_standby_names`).Scan(&names); err != nil || names != standbys {
				return fmt.Errorf("%q: %w", names, err)
			}
			return nil
		})
	}
	waitsFor("away")
	defer waitsFor("")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go follow.NewReader(p.store, db.DB, f, 0, fast()).Next(ctx) // its commit waits
	servertest.Await(t, func() error {
		if at := replica.mark(t); at < id {
			return fmt.Errorf("the replica's fence is at %v", at)
		}
		return nil
	})
	require.Less(t, db.mark(t), id)

	o := fast()
	o.Replica = replica.DB
	r := follow.NewReader(p.store, db.DB, f, 0, o)
	var got []snowflake.ID
	read := func(ctx context.Context) error {
		return r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			got = append(got, ids(t, tx, s)...)
			return nil
		})
	}
	require.NoError(t, read(t.Context()))
	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.NotErrorIs(t, read(late), follow.ErrRewound)
	require.Equal(t, []snowflake.ID{id}, got)
}

func testReplica(t *testing.T, db database, server *servertest.Process, replica *replica) {
	f, p := prepare(t, db), leased(t)
	replica.catchUp(t, db)
	var log servertest.Buffer
	o := fast()
	o.Replica, o.Logger = replica.DB, slog.New(slog.NewTextHandler(&log, nil))
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
	got := servertest.Must(read(t.Context()))(t)
	require.Equal(t, []snowflake.ID{id}, got)

	first, second := p.id(t), p.id(t)
	db.exec(t, insert(second))
	replica.catchUp(t, db) // it has the second row without the first
	replica.exec(t, replica.pause)
	db.exec(t, insert(first))
	// The primary's fence is above both rows.
	until(t, follow.NewReader(p.store, db.DB, f, cursor, fast()), second)
	require.ErrorContains(t, untilLogged(t, read, &log, "waiting for the replica"), "waiting for the replica")
	replica.exec(t, replica.resume)
	got = servertest.Must(read(t.Context()))(t)
	require.Equal(t, []snowflake.ID{first, second}, got)
	require.Contains(t, log.String(), "reading again")

	// The replica serves rows while the primary is away.
	id = p.id(t)
	db.exec(t, insert(id))
	until(t, follow.NewReader(p.store, db.DB, f, cursor, fast()), id)
	replica.catchUp(t, db)
	server.Kill()
	got = servertest.Must(read(t.Context()))(t)
	require.Equal(t, []snowflake.ID{id}, got)
	server.Restart()
	servertest.Reconnect(db.DB)

	// The primary commits a row that the replica does not get.
	for _, s := range replica.part {
		replica.exec(t, s)
	}
	if db.dialect == follow.PostgreSQL { // until the reload takes effect
		var sender int
		servertest.Await(t, func() error {
			if err := db.QueryRow(`SELECT pid FROM pg_stat_replication`).Scan(&sender); err != sql.ErrNoRows {
				return errors.New("the replica still receives")
			}
			return nil
		})
	}
	inFlight, lost := p.id(t), p.id(t)
	db.exec(t, insert(lost))
	r = follow.NewReader(p.store, db.DB, f, cursor, fast())
	got = servertest.Must(read(t.Context()))(t)
	require.Equal(t, []snowflake.ID{lost}, got)
	server.Kill()
	for _, s := range replica.promote {
		replica.exec(t, s)
	}
	tx := servertest.Must(replica.Begin())(t)
	_, err := tx.Exec(insert(inFlight)) // its writer tries again
	require.NoError(t, err)
	require.NoError(t, f.Check(t.Context(), tx, inFlight))
	require.NoError(t, tx.Commit())
	r = follow.NewReader(p.store, replica.DB, f, cursor, fast())
	_, err = read(t.Context())
	require.ErrorIs(t, err, follow.ErrRewound)
	got = servertest.Must(read(t.Context()))(t)
	require.Empty(t, got)
	got = servertest.Must(read(t.Context()))(t)
	require.Equal(t, []snowflake.ID{inFlight}, got)
}
