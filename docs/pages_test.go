//go:build go1.25

package docs_test

import (
	"context"
	"database/sql"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// TestMigrate runs the blocks of migrate.md.
func TestMigrate(t *testing.T) {
	old, err := snowflake.New(1, &snowflake.Options{Layout: layouts.Bwmarrin()})
	require.NoError(t, err)
	issued, err := old.NextID()
	require.NoError(t, err)
	maxID := func(context.Context, *sql.DB) (snowflake.ID, error) { return issued, nil }

	resume := func(ctx context.Context, db *sql.DB, worker int) error {
		last, err := maxID(ctx, db)
		if err != nil {
			return err
		}
		g, err := snowflake.New(worker, &snowflake.Options{Layout: layouts.Bwmarrin(), After: last})
		if err != nil {
			return err
		}
		id, err := g.NextID()
		assert.Greater(t, id, issued)
		return err
	}
	require.NoError(t, resume(t.Context(), nil, 1))

	run := func(store lease.Store, last snowflake.ID) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "import", Layout: layouts.Bwmarrin()})
		if err != nil {
			return err
		}
		defer l.Release(context.Background())
		g, err := snowflake.NewLeased(l, &snowflake.Options{After: last})
		if err != nil {
			return err
		}
		id, err := g.NextID()
		assert.Greater(t, id, last)
		return err
	}
	require.NoError(t, run(lease.File(t.TempDir()), issued))
}

// TestHomeMade holds the layouts that migrate.md writes for others to what their code computes.
func TestHomeMade(t *testing.T) {
	nsq := snowflake.Layout{Epoch: 1351441421999, Unit: 1 << 20, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
	tinode := snowflake.Layout{Epoch: 1414213562373, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for i := range 5000 {
		at := at.Add(time.Duration(i) * 123_457 * time.Nanosecond)
		id := snowflake.ID((at.UnixNano()>>20-1288834974288)<<22 | 7<<12 | 3)
		p := nsq.Decode(id)
		assert.Equal(t, []int{7, 3}, []int{p.Worker, p.Sequence})
		late := at.Sub(p.Time) // at most a unit by nsq's cut, and a millisecond by the epoch's
		require.True(t, 0 <= late && late < nsq.Unit+time.Millisecond, "%v", late)
		ahead := int64(at.Sub(nsq.Epoch.Time())/nsq.Unit) - int64(id>>22)
		require.True(t, ahead == 0 || ahead == 1, "a generator's tick at this time: %d", ahead)
	}
	id := snowflake.ID((at.UnixNano()/1_000_000-1414213562373)<<22 | 7<<12 | 3)
	assert.Equal(t, snowflake.Parts{Time: at, Worker: 7, Sequence: 3}, tinode.Decode(id))
}

// TestScale runs the block of scale.md.
func TestScale(t *testing.T) {
	ctx, store, pod, shard := t.Context(), lease.File(t.TempDir()), "orders-1", 3
	layout := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond,
		TimeBits: 41, DatacenterBits: 8, WorkerBits: 10, SequenceBits: 4} // 100,000 processes
	require.NoError(t, lease.Init(ctx, store, layout)) // so that the test need not wait for a window
	l, err := lease.Acquire(ctx, store, &lease.Options{Layout: layout, Owner: pod, Window: 30 * time.Second})
	require.NoError(t, err)
	gen, err := snowflake.NewLeased(l, &snowflake.Options{Datacenter: shard, BorrowAhead: 50 * time.Millisecond})
	require.NoError(t, err)
	ids := make([]snowflake.ID, 100)
	_, err = gen.Fill(ctx, ids)
	require.NoError(t, err)
	assert.Equal(t, shard, gen.Decode(ids[99]).Datacenter)
	require.NoError(t, l.Release(ctx))
}
