//go:build go1.25

package leases

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Each ID is issued under a lease, or with the worker ID of one, after New has read the history.
func TestIDsThatAreYoungerThanTheHistoryAreNoStrangers(t *testing.T) {
	store, reads := lease.File(t.TempDir()), 0
	read := func() (*lease.History, error) {
		reads++
		return lease.ReadHistory(t.Context(), store)
	}
	require.NoError(t, lease.Init(t.Context(), store, snowflake.DefaultLayout()))
	later := snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Hour) }) // than Init
	acquire := func(owner string) (*lease.Lease, *snowflake.Generator) {
		l, err := lease.Acquire(t.Context(), store, &lease.Options{Owner: owner, Logger: slog.New(slog.DiscardHandler), Count: 2, Clock: later})
		require.NoError(t, err)
		gen, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		return l, gen
	}
	l, _ := acquire("first")
	require.NoError(t, l.Release(t.Context()))
	a, err := New(read, Options{KeptOut: []int{900}})
	require.NoError(t, err)
	l, gen := acquire("second")
	defer l.Release(t.Context())
	id, err := gen.NextIDContext(t.Context())
	require.NoError(t, err)
	encode := func(worker int, later time.Duration) snowflake.ID {
		p := gen.Decode(id)
		p.Worker, p.Time = worker, p.Time.Add(later)
		id, err := snowflake.DefaultLayout().Encode(p)
		require.NoError(t, err)
		return id
	}
	for _, id := range []snowflake.ID{
		id, encode(l.Worker(), time.Hour), encode(l.Worker(), time.Hour+time.Second), encode(7, 0), encode(900, 0),
		encode(7, -30*time.Minute), encode(7, -24*time.Hour), -5,
	} {
		require.NoError(t, a.Add(id))
	}
	r, err := a.Report()
	require.NoError(t, err)
	assert.Equal(t, 2, reads)
	assert.Equal(t, 1, r.Held)
	assert.Equal(t, 7, r.IDs)
	assert.Equal(t, 1, r.Foreign)
	assert.Equal(t, 1, Count(r.KeptOut))
	assert.Equal(t, 1, Count(r.Earlier))
	assert.Equal(t, 1, Count(r.Forgotten))
	require.Len(t, r.Strangers, 2)
	for _, g := range r.Strangers {
		require.Contains(t, []int{l.Worker(), 7}, g.Worker)
		if g.Worker != 7 {
			assert.Equal(t, 2, g.IDs)
			assert.Equal(t, "second", g.Before.Owner)
			assert.Nil(t, g.After)
		}
	}
	assert.Equal(t, 4, r.Wrong(), "also the ID that is not of the layout")
	var b strings.Builder
	r.Write(&b, 20)
	for _, says := range []string{"1 of 7 IDs were issued by", "have issued: 3\n", "before them second (",
		"after them no process has held it", "no process held it, as far as",
		"not judged: IDs from before their worker's history begins, or whose records were lost: 1",
		"not judged: IDs before the first lease that the store knows: 1", "not judged: IDs of worker IDs that are kept out of the leases: 1", "WRONG: IDs that are not of the layout of the leases: 1"} {
		assert.Contains(t, b.String(), says)
	}
	for range mostWaiting + 1 { // what waits is bounded
		require.NoError(t, a.Add(encode(7, 0)))
	}
	assert.Equal(t, 3, reads)
	assert.Len(t, a.waiting, 1)
}

// When the history is read, the holder has a window. Then it releases its worker ID, and a program
// without a lease continues with it in the rest of the window.
func TestWhoGoesOnAfterAReleaseIsFound(t *testing.T) {
	store := lease.File(t.TempDir())
	l, err := lease.Acquire(t.Context(), store, &lease.Options{Owner: "one", Logger: slog.New(slog.DiscardHandler), Window: time.Minute, NewStore: true})
	require.NoError(t, err)
	gen, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	a, err := New(func() (*lease.History, error) { return lease.ReadHistory(t.Context(), store) }, Options{})
	require.NoError(t, err)
	id, err := gen.NextIDContext(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.Add(id))
	require.NoError(t, l.Release(t.Context()))
	p := gen.Decode(id)
	p.Time = p.Time.Add(30 * time.Second)
	rogue, err := snowflake.DefaultLayout().Encode(p)
	require.NoError(t, err)
	require.NoError(t, a.Add(rogue))
	r, err := a.Report()
	require.NoError(t, err)
	assert.Equal(t, 1, r.Held)
	assert.Equal(t, 1, Count(r.Strangers))
}

// A long audit does not list a program again after each renewal of the holder whose worker ID it
// uses.
func TestStrangersOfALiveHolderAreOneGroup(t *testing.T) {
	store := lease.File(t.TempDir())
	l, err := lease.Acquire(t.Context(), store, &lease.Options{
		Owner:  "one",
		Logger: slog.New(slog.DiscardHandler),
		Window: 300 * time.Millisecond,
	})
	require.NoError(t, err)
	defer l.Release(t.Context())
	var h *lease.History
	a, err := New(func() (_ *lease.History, err error) {
		h, err = lease.ReadHistory(t.Context(), store)
		return h, err
	}, Options{})
	require.NoError(t, err)
	tomorrow, err := snowflake.DefaultLayout().Encode(snowflake.Parts{Worker: l.Worker(), Time: time.Now().Add(24 * time.Hour)})
	require.NoError(t, err)
	require.NoError(t, a.Add(tomorrow))
	require.NoError(t, a.Settle())
	first, _ := h.Around(tomorrow)
	require.Eventually(t, func() bool {
		require.NoError(t, a.Add(tomorrow+1))
		require.NoError(t, a.Settle())
		is, _ := h.Around(tomorrow)
		return is.To.After(first.To)
	}, time.Minute, 10*time.Millisecond)
	r, err := a.Report()
	require.NoError(t, err)
	require.Len(t, r.Strangers, 1)
	is, _ := h.Around(tomorrow)
	assert.Equal(t, is, r.Strangers[0].Before)
}
