//go:build unix

package generate_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// followed is a function whose IDs are under a fence, with a writer under the same fence.
type followed struct {
	function
	fence *follow.Fence
	store lease.Store
	lease *lease.Lease
	gen   *snowflake.Generator
}

var quiet = slog.New(slog.DiscardHandler)

// installFollowed creates the table outbox, with the function as the IDs' default, and its fence.
func installFollowed(t testing.TB) followed {
	t.Helper()
	f := followed{function: install(t, shared(t), snowflake.DefaultLayout()).withClock(t), store: lease.File(t.TempDir())}
	f.fence = servertest.Must(follow.NewFence(follow.PostgreSQL, f.Schema+".outbox_fence"))(t)
	require.NoError(t, f.fence.Create(t.Context(), f.DB))
	f.Fence = "outbox_fence"
	f.run(t)
	f.useClock(t)
	f.exec(t, fmt.Sprintf(`CREATE TABLE %s.outbox (id bigint PRIMARY KEY DEFAULT %[1]s.snowflake_id(), writer int)`, f.Schema))
	f.lease = servertest.Must(lease.Acquire(t.Context(), f.store, &lease.Options{
		NewStore:   true,
		Count:      f.Worker,
		Window:     5 * time.Second,
		FloorEvery: 20 * time.Millisecond,
		Logger:     quiet,
	}))(t)
	t.Cleanup(func() { _ = f.lease.Release(context.Background()) })
	f.gen = servertest.Must(snowflake.NewLeased(f.lease, nil))(t)
	return f
}

const insertRow = `INSERT INTO outbox (writer) VALUES (1) RETURNING id`

func (f followed) reader() *follow.Reader {
	return follow.NewReader(f.store, f.DB, f.fence, 0, &follow.Options{
		Every:  10 * time.Millisecond,
		Table:  f.Schema + ".outbox",
		Logger: quiet,
	})
}

// read reads the rows of the next span.
func (f followed) read(ctx context.Context, r *follow.Reader) ([]snowflake.ID, error) {
	s, err := r.Next(ctx)
	if err != nil {
		return nil, err
	}
	return draw(f.DB, fmt.Sprintf(`SELECT id FROM outbox WHERE id > %d AND id <= %d ORDER BY id`, s.After, s.UpTo))
}

// A reader waits for a transaction that has drawn an ID, however late it commits, and whatever it
// draws later.
func TestFollowReadsRowsThatCommitLate(t *testing.T) {
	t.Parallel()
	f := installFollowed(t)
	tx := servertest.Must(f.Begin())(t)
	defer tx.Rollback()
	first := servertest.Must(draw(tx, insertRow))(t)
	// Another transaction commits first, so that there is something to read.
	third := servertest.Must(draw(f.DB, insertRow))(t)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []snowflake.ID
	all.Go(func() {
		r := f.reader()
		for len(got) < 3 {
			ids, err := f.read(ctx, r)
			if !assert.NoError(t, err) {
				return
			}
			got = append(got, ids...)
		}
	})
	servertest.Await(t, func() error { // the reader has raised the sequence above the first ID
		var mark snowflake.ID
		if err := f.QueryRow(`SELECT last_value FROM outbox_fence_mark`).Scan(&mark); err != nil || mark < first[0] {
			return fmt.Errorf("mark %d, %v", mark, err)
		}
		return nil
	})
	second := servertest.Must(draw(tx, insertRow))(t)
	time.Sleep(300 * time.Millisecond) // a reader that does not wait would read more
	var reached snowflake.ID
	require.NoError(t, f.QueryRow(`SELECT id FROM outbox_fence`).Scan(&reached))
	require.Less(t, reached, first[0])
	require.NoError(t, tx.Commit())
	all.Wait()
	require.ElementsMatch(t, []snowflake.ID{first[0], second[0], third[0]}, got)
}

// If the database's clock is behind those of the leases, IDs are above those that readers have
// passed; if it is too far behind, there are none.
func TestFollowWithADatabaseWhoseClockIsBehind(t *testing.T) {
	t.Parallel()
	f := installFollowed(t)
	f.ahead(t, -8*time.Second)
	pass := func(to time.Time) snowflake.ID {
		id := servertest.Must(f.Layout.Encode(snowflake.Parts{Time: to, Worker: 127, Sequence: 4095}))(t)
		f.exec(t, `SELECT setval('outbox_fence_mark', $1)`, int64(id))
		return id
	}
	now := f.clock(t)
	mark := pass(now)
	ids := servertest.Must(draw(f.DB, `INSERT INTO outbox (writer) SELECT * FROM generate_series(1, 5000) RETURNING id`))(t)
	latest := f.clock(t).Add(10 * time.Second)
	for _, id := range ids {
		require.Greater(t, id, mark)
		require.False(t, f.hold(t, id).After(latest))
	}
	pass(now.Add(time.Hour))
	f.refused(t, "SNF04", "behind the next ID")
}

// All rows of the function and of a Writer, with late commits, rollbacks and savepoints, are read,
// and none twice, while the database's clock steps.
func TestFollowMissesNone(t *testing.T) {
	t.Parallel()
	f := installFollowed(t)
	ctx, stop := context.WithTimeout(t.Context(), depth.Of(4*time.Second, 20*time.Second))
	defer stop()
	var writers, reader sync.WaitGroup
	for range 12 {
		writers.Go(func() {
			for ctx.Err() == nil {
				f.transaction(t)
			}
		})
	}
	w := follow.NewWriter(f.DB, f.fence, f.lease, f.gen)
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				assert.NoError(t, w.Do(t.Context(), func(tx *follow.Tx) error {
					id, err := tx.NextID()
					if err == nil {
						_, err = tx.Exec(`INSERT INTO outbox VALUES ($1, 0)`, id)
					}
					return err
				}))
			}
		})
	}
	got := map[snowflake.ID]int{}
	var read atomic.Int64 // the last ID in got
	reading, end := context.WithCancel(t.Context())
	defer end()
	reader.Go(func() {
		r := f.reader()
		for {
			ids, err := f.read(reading, r)
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
				return
			}
			for _, id := range ids {
				got[id]++
				read.Store(int64(id))
			}
		}
	})
	for ctx.Err() == nil {
		f.ahead(t, -time.Duration(rand.Int64N(int64(3*time.Second))))
		time.Sleep(50 * time.Millisecond)
	}
	writers.Wait()
	f.ahead(t, 0)
	last := servertest.Must(draw(f.DB, insertRow))(t)
	servertest.Await(t, func() error {
		if at := snowflake.ID(read.Load()); at < last[0] {
			return fmt.Errorf("the reader has read up to %d, and not %d", at, last[0])
		}
		return nil
	})
	end()
	reader.Wait()
	rows := servertest.Must(draw(f.DB, `SELECT id FROM outbox ORDER BY id`))(t)
	require.Greater(t, len(rows), 100)
	for _, id := range rows {
		require.Equal(t, 1, got[id], "%d was read %d times", id, got[id])
	}
	require.Len(t, got, len(rows))
	t.Logf("%d rows", len(rows))
}

// transaction inserts some rows, with pauses.
func (f followed) transaction(t *testing.T) {
	tx, err := f.Begin()
	if !assert.NoError(t, err) {
		return
	}
	defer tx.Rollback()
	for range 1 + rand.IntN(4) {
		point := rand.IntN(3) == 0
		if point {
			_, err = tx.Exec(`SAVEPOINT s`)
			assert.NoError(t, err)
		}
		_, err := tx.Exec(`INSERT INTO outbox (writer) SELECT * FROM generate_series(1, $1::int)`, 1+rand.IntN(10))
		assert.NoError(t, err)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		if point {
			_, err = tx.Exec([]string{`ROLLBACK TO s`, `RELEASE s`}[rand.IntN(2)])
			assert.NoError(t, err)
		}
	}
	if rand.IntN(4) > 0 {
		assert.NoError(t, tx.Commit())
	}
}
