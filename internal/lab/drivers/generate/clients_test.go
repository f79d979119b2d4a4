//go:build unix

package generate_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// requireUnique lets clients draw n IDs each, and checks that all are different.
func requireUnique(t testing.TB, f function, clients, n int) {
	t.Helper()
	var s seen
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range n / 50 {
				ids, err := f.draw(50)
				assert.NoError(t, err)
				s.add(ids...)
			}
		})
	}
	all.Wait()
	require.Equal(t, clients*n, s.unique(t, f))
}

// seen collects the IDs that clients have seen, whether their transactions were committed or not.
type seen struct {
	sync.Mutex
	ids []snowflake.ID
}

func (s *seen) add(ids ...snowflake.ID) {
	s.Lock()
	defer s.Unlock()
	s.ids = append(s.ids, ids...)
}

// unique fails the test if an ID was seen twice, and returns the number of IDs.
func (s *seen) unique(t testing.TB, f function) int {
	t.Helper()
	s.Lock()
	defer s.Unlock()
	slices.Sort(s.ids)
	for i, id := range s.ids {
		f.hold(t, id)
		require.True(t, i == 0 || id != s.ids[i-1], "%d was seen twice", id)
	}
	return len(s.ids)
}

// increase checks that IDs that were drawn since a time have true times, unless the test sets the
// clock, and increase from last on. It returns the last of them. The server has the clock of the
// test's process.
func (f function) increase(t testing.TB, ids []snowflake.ID, last snowflake.ID, since time.Time) snowflake.ID {
	for _, id := range ids {
		at := f.Layout.Decode(id).Time
		assert.True(t, f.path != f.Schema || !at.Add(f.Layout.Unit).Before(since) &&
			!at.After(time.Now().Add(10*time.Second)), "%d is of %v, drawn after %v", id, at, since)
		assert.Greater(t, id, last)
		last = id
	}
	return last
}

// client inserts rows until ctx ends, and sees their IDs: in statements of 1 to 1,000 rows, in
// transactions of every isolation level that are committed, rolled back, in part or as a whole,
// canceled by a timeout of 1 to 30 ms or by another client. begin starts a transaction.
func client(ctx context.Context, t testing.TB, f function, s *seen, begin func(context.Context) (*sql.Tx, func(), error)) {
	var last snowflake.ID
	for ctx.Err() == nil {
		func() {
			tx, done, err := begin(ctx)
			if err != nil {
				time.Sleep(10 * time.Millisecond)
				return
			}
			defer done()
			defer tx.Rollback()
			_, _ = tx.Exec(`SET TRANSACTION ISOLATION LEVEL ` + []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}[rand.IntN(3)])
			if rand.IntN(3) == 0 {
				_, _ = tx.Exec(fmt.Sprintf(`SET LOCAL statement_timeout = %d`, 1+rand.IntN(30)))
			}
			for range 1 + rand.IntN(4) {
				n := 1
				if rand.IntN(2) == 0 {
					n = 1 + rand.IntN(1000)
				}
				_, _ = tx.Exec(`SAVEPOINT s`)
				since := time.Now().Truncate(time.Microsecond)
				ids, err := draw(tx, `INSERT INTO orders (n) SELECT * FROM generate_series(1, $1::int) RETURNING id`, n)
				s.add(ids...) // the IDs before the error
				last = f.increase(t, ids, last, since)
				if err != nil || rand.IntN(4) == 0 {
					if _, err := tx.Exec(`ROLLBACK TO s`); err != nil {
						return
					}
				}
			}
			if rand.IntN(6) > 0 {
				_ = tx.Commit()
			}
		}()
	}
}

// cancel cancels and ends sessions that draw IDs.
func cancel(ctx context.Context, f function, db *sql.DB) {
	for ctx.Err() == nil {
		how := "pg_cancel_backend"
		if rand.IntN(10) == 0 {
			how = "pg_terminate_backend"
		}
		_, _ = db.Exec(`SELECT `+how+`(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'active' AND query LIKE 'INSERT INTO orders%' AND application_name = $1 ORDER BY random() LIMIT 1`, f.Schema)
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	}
}

// crowd runs 16 clients with faults for a time, and then checks their IDs, the table, and the
// locks.
func crowd(t *testing.T, f function, during time.Duration, begin func(context.Context) (*sql.Tx, func(), error), faults ...func(context.Context)) {
	t.Helper()
	// No index refuses duplicates.
	f.exec(t, `CREATE TABLE IF NOT EXISTS orders (id bigint DEFAULT snowflake_id(), n int)`)
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	var s seen
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { client(ctx, t, f, &s, begin) })
	}
	for i, fault := range faults {
		if i > 0 {
			all.Go(func() { fault(ctx) })
		}
	}
	if len(faults) > 0 {
		faults[0](ctx) // it may fail the test
	}
	all.Wait()
	var rows, distinct int
	require.NoError(t, f.QueryRow(`SELECT count(*), count(DISTINCT id) FROM orders`).Scan(&rows, &distinct))
	require.Equal(t, rows, distinct)
	n := s.unique(t, f)
	require.Positive(t, rows)
	require.Zero(t, f.locks(t))
	f.must(t, 1)
	t.Logf("%d IDs were seen, and %d rows are there", n, rows)
}

// sessions begins each transaction in a session of database/sql's pool.
func (f function) sessions(t testing.TB) func(context.Context) (*sql.Tx, func(), error) {
	db, err := sql.Open("pgx", f.url("owner", f.path)+"&application_name="+f.Schema)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return func(context.Context) (*sql.Tx, func(), error) {
		tx, err := db.Begin()
		return tx, func() {}, err
	}
}

// rareIDs is a layout with 16 IDs a millisecond, so that many calls open a tick.
var rareIDs = snowflake.Layout{
	Epoch:        snowflake.DefaultEpoch,
	Unit:         time.Millisecond,
	TimeBits:     41,
	ClockSeqBits: 3,
	WorkerBits:   7,
	SequenceBits: 4,
}

func during() time.Duration { return depth.Of(3*time.Second, 20*time.Second) }

func TestClientsThatAreCanceled(t *testing.T) {
	for name, l := range map[string]snowflake.Layout{
		"default":   snowflake.DefaultLayout(),
		"rare":      rareIDs,
		"sonyflake": layouts.Sonyflake(),
		"jssafe":    snowflake.JSSafeLayout(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := install(t, shared(t), l)
			crowd(t, f, during(), f.sessions(t), func(ctx context.Context) { cancel(ctx, f, f.DB) })
		})
	}
}

// A pooler in transaction mode gives each transaction the session that has waited longest.
func TestPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), rareIDs)
	pool := make(chan *sql.Conn, 4)
	for range cap(pool) {
		conn, err := f.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		pool <- conn
	}
	crowd(t, f, during(), func(ctx context.Context) (*sql.Tx, func(), error) {
		conn := <-pool
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			pool <- conn
		}
		return tx, func() {
			_ = tx.Rollback()
			pool <- conn
		}, err
	})
}

// If the clock steps back and forth, no ID repeats. Calls fail while it is behind by more than 10
// s.
func TestClientsAndAClockThatSteps(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), rareIDs).withClock(t)
	crowd(t, f, during(), f.sessions(t), func(ctx context.Context) {
		for ctx.Err() == nil {
			f.ahead(t, time.Duration(rand.Int64N(int64(14*time.Second)))-7*time.Second)
			time.Sleep(20 * time.Millisecond)
		}
		f.ahead(t, 10*time.Second)
	})
}
