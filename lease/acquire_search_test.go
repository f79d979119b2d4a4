//go:build go1.25

package lease

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// occupy opens the store, and gives each worker ID of a layout for which is returns true to a live
// holder.
func (m *memory) occupy(t *testing.T, layout snowflake.Layout, is func(worker int) bool) {
	require.NoError(t, Init(t.Context(), m, layout))
	for worker := range 1 << layout.WorkerBits {
		if is(worker) {
			r := protocol.Record{Worker: worker, Layout: layout}.Take(protocol.Window{},
				protocol.Holder{Token: "x", Owner: fmt.Sprint(worker), WindowLength: MaxWindow}, time.Time{}, protocol.Clocks{Own: time.Now()})
			r.Saves, r.Marked = 1, true
			_, err := book.PutRecord(m.line(), r)
			require.NoError(t, err)
		}
	}
}

// However many worker IDs there are, a start reads a few records.
func TestStartReadsLittle(t *testing.T) {
	for _, bits := range []uint8{4, 10, 14} {
		synctest.Test(t, func(t *testing.T) {
			layout := fleet
			layout.WorkerBits = bits
			m := newMemory()
			m.occupy(t, layout, func(worker int) bool { return worker%2 == 0 })
			const starts = 200
			most := 0
			m.reads = 0
			for i := range starts {
				before := m.reads
				h := mustAcquire(t, m, layout, clockAt(0), named(fmt.Sprint("n", i)))
				most = max(most, m.reads-before)
				require.NoError(t, h.Release(t.Context()))
			}
			assert.LessOrEqual(t, m.reads, 9*starts)
			if bits > 4 {
				assert.LessOrEqual(t, most, 40)
			}
			before := m.reads
			mustAcquire(t, m, layout, clockAt(0), named(fmt.Sprint("n", starts-1)))
			assert.LessOrEqual(t, m.reads-before, 4, "it looks at its former worker ID first")
		})
	}
}

// If hardly any worker ID is free, a search reads some at random only once. Later it reads all of
// them at once.
func TestStartOnAFullStoreAsksLittle(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		m.occupy(t, fleet, func(worker int) bool { return worker != 7 })
		m.asked = 0
		h := mustAcquire(t, m, fleet, clockAt(0))
		assert.Equal(t, 7, h.Worker())
		assert.LessOrEqual(t, m.asked, maxProbes+10)
		m.asked = 0
		_, err := acquire(t, m, fleet, clockAt(0), named("b"))
		require.NoError(t, err) // it waited until a holder was dead
		assert.LessOrEqual(t, m.asked, maxProbes+60*5+10)
	})
}

// An owner's entry is a hint that is saved once. Only an owner that keeps its worker ID needs it.
func TestOwnersEntryIsSavedOnce(t *testing.T) {
	for reuse, want := range map[Reuse]int{ReuseAny: 1, ReuseKeep: 1, ReuseOnce: 0} {
		withMemory(t, func(t *testing.T, m *memory) {
			puts := 0
			m.becomes(func(ctx context.Context, q *query, next asks) error {
				if q.do == "put" && strings.HasPrefix(q.key, book.OwnerPrefix) {
					puts++
				}
				return next(ctx, q)
			})
			for range 3 {
				require.NoError(t, mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Reuse = reuse }).Release(t.Context()))
			}
			assert.Equal(t, want, puts)
		})
		withMemory(t, func(t *testing.T, m *memory) {
			m.becomes(refuses(book.OwnerPrefix))
			_, err := acquire(t, m, fleet, clockAt(0), func(o *Options) { o.Reuse = reuse })
			if reuse == ReuseKeep {
				require.ErrorIs(t, err, errDown)
				require.Zero(t, m.count(), "another worker ID would be lost to the owner")
				time.Sleep(time.Minute) // until nothing is given back any more
			} else {
				require.NoError(t, err)
			}
		})
	}
}
