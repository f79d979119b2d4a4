//go:build go1.25

package lease

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

func withCopy(dir string) func(*Options) {
	return func(o *Options) { o.Reuse, o.LocalCopy = ReuseKeep, dir }
}

func TestUnreadableLocalCopyIsRefused(t *testing.T) {
	for _, name := range []string{"identity", "worker/0"} {
		synctest.Test(t, func(t *testing.T) {
			m, dir := newMemory(), t.TempDir()
			require.NoError(t, mustAcquire(t, m, plain, clockAt(0), withCopy(dir)).Release(t.Context()))
			require.NoError(t, os.Truncate(filepath.Join(dir, name), 5))
			_, err := acquire(t, m, plain, clockAt(0), withCopy(dir))
			require.ErrorIs(t, err, ErrBadRecord)
			assert.ErrorContains(t, err, filepath.Join(dir, name))
		})
	}
}

func TestLocalCopyInTheStoresOwnDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	for _, same := range []string{dir, dir + "/", link} {
		_, err := Acquire(t.Context(), File(dir), &Options{Reuse: ReuseKeep, LocalCopy: same})
		require.ErrorIs(t, err, ErrInvalidOptions)
	}
	entries, err := File(dir).List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestReuseKeepGivesAnOwnerOneWorkerID(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		require.NoError(t, mustAcquire(t, m, fleet, clockAt(0), named("b"), reuse(ReuseKeep)).Release(t.Context()))
		var got atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep}); err == nil {
					got.Add(1)
					defer stopRenewing(l)
					time.Sleep(10 * span)
				} else {
					assert.ErrorIs(t, err, ErrExhausted)
					assert.ErrorContains(t, err, "of 0 to 255; owner a already keeps one: worker ")
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 1, got.Load())
		assert.Equal(t, 2, m.count())
	})
}

func TestReuseKeepGivesAnOwnerOneWorkerIDIfItsEntryCannotBeRead(t *testing.T) {
	unreadable := func(ctx context.Context, q *query, next asks) error {
		if q.reads() && strings.HasPrefix(q.key, book.OwnerPrefix) {
			return ErrBadRecord
		}
		return next(ctx, q)
	}
	for why, garble := range map[string]func(*memory){
		"the store says so": func(m *memory) { m.becomes(unreadable) },
		"it is no worker ID": func(m *memory) {
			m.set(func() { m.store(&query{do: "put", key: book.OwnerKey("a"), value: []byte("?")}) })
		},
	} {
		inBubble(t, why, func(t *testing.T) {
			m := newMemory()
			h := mustAcquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
			require.NoError(t, h.Release(t.Context()))
			garble(m)
			assert.Equal(t, h.Worker(), mustAcquire(t, m, fleet, clockAt(0), reuse(ReuseKeep)).Worker())
			assert.Equal(t, 1, m.count())
		})
	}
}

func TestReuseKeepGivesAnOwnerOneWorkerIDIfSavesAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []fault{late(span / 100), late(10 * span), slow(time.Hour), silent} {
			m := newMemory()
			m.becomes(fault)
			_, _ = acquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
			time.Sleep(20 * span)
			assert.LessOrEqual(t, m.count(), 1)
		}
	})
}

// However many holdings have ended while the store was away, Whois finds them when it is back.
func TestLocalCopySendsAllOfTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, plain, clockAt(0), withCopy(dir))
		m.becomes(down)
		var ids []snowflake.ID
		for range 2*protocol.MaxEnded + 1 {
			id, err := h.g.NextID()
			require.NoError(t, err)
			ids = append(ids, id)
			require.NoError(t, h.Release(t.Context()))
			time.Sleep(ms)
			h = mustAcquire(t, m, plain, clockAt(0), withCopy(dir))
		}
		m.becomes()
		time.Sleep(span)
		for _, id := range ids {
			_, err := Whois(t.Context(), m, id)
			require.NoError(t, err)
		}
		left, err := File(dir).List(t.Context(), book.HistoryPrefix)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

// While the store is away, a process reads its copy of the entry "store". Another process of the
// owner gives the worker ID back. Once the store answers, the first process takes the worker ID,
// and leaves the copy as it is: a start needs it.
func TestLocalCopyKeepsTheEntryStoreIfAnotherProcessGivesTheWorkerIDBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, o := newMemory(), &Options{Layout: plain, Owner: "a", Window: 3 * time.Second}
		withCopy(t.TempDir())(o)
		h := mustAcquire(t, m, plain, clockAt(0), withCopy(o.LocalCopy))
		open := func() Store {
			o := *o
			s, err := withLocalCopy(t.Context(), m, o.local(), &o)
			require.NoError(t, err)
			return s
		}
		record := h.shown.Load().record
		require.NoError(t, h.Release(t.Context()))
		first, second := open(), open()

		m.becomes(down)
		_, err := first.Get(t.Context(), book.DoorKey)
		require.NoError(t, err)
		m.becomes()
		r, err := book.GetRecord(book.LineTo(t.Context(), second), record.Worker)
		require.NoError(t, err)
		r.Owner = ""
		r, err = book.PutRecord(book.LineTo(t.Context(), second), r)
		require.NoError(t, err)
		record.Version = r.Version
		_, err = book.PutRecord(book.LineTo(t.Context(), first), record)
		require.NoError(t, err)
		_, err = book.GetDoor(book.LineTo(t.Context(), o.local()))
		assert.NoError(t, err)
	})
}

// If the worker ID went to another owner, and the copy cannot be removed, the holder says so: a
// later start would use it.
func TestLocalCopyThatCannotBeRemovedIsAnError(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m, full := newMemory(), errors.New("the disk is read only")
		noRemovals := func(what, path string, do func() error) error {
			if what == "remove" && filepath.Base(filepath.Dir(path)) == strings.TrimSuffix(book.RecordPrefix, "/") {
				return full
			}
			return do()
		}
		o := &Options{Layout: fleet, Owner: "a", Clock: clockAt(0), NewStore: true, Reuse: ReuseKeep, LocalCopy: dir, disk: noRemovals}
		l, err := Acquire(context.Background(), m, o)
		require.NoError(t, err)
		defer stopRenewing(l)
		m.take(l.Worker(), "b")
		time.Sleep(span)
		assert.ErrorIs(t, l.Stats().LastError, full)
	})
}

// While the shared store is away, it is asked again only after a while. Until then nothing counts
// as absent.
func TestStoreThatWasAwayAMomentAgoHasNoAnswer(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, plain, clockAt(0), withCopy(t.TempDir()))
		time.Sleep(span) // the copy counts from the first renewal on
		stopRenewing(h.Lease)
		m.becomes(down)
		asked := 0
		for range 3 {
			door, err := h.store.Get(t.Context(), book.DoorKey)
			require.NoError(t, err)
			require.NotEmpty(t, door.Version)
			_, err = h.store.Get(t.Context(), book.WatermarkKey)
			require.ErrorIs(t, err, errDown)
			records, err := h.store.List(t.Context(), book.RecordPrefix)
			require.NoError(t, err)
			require.Len(t, records, 1)
			if asked == 0 {
				asked = m.asked
			}
			require.Equal(t, asked, m.asked)
		}
	})
}

// A save here fails, so the holder reads its record before it saves again. The copy is gone by
// then, for example because a disk was unmounted, and the directory can be written. When the disk
// is back, its copy has earlier bounds. So the holder has lost the worker ID.
func TestHolderWhoseCopyIsGoneAfterAFaultLosesItsWorkerID(t *testing.T) {
	dir := t.TempDir()
	withMemory(t, func(t *testing.T, m *memory) {
		var fails atomic.Bool
		faulty := func(_, path string, do func() error) error {
			if fails.Load() && filepath.Base(filepath.Dir(path)) == strings.TrimSuffix(book.RecordPrefix, "/") {
				return errFault
			}
			return do()
		}
		o := &Options{Layout: fleet, Owner: "a", Clock: clockAt(0), NewStore: true, Window: span, Reuse: ReuseKeep, LocalCopy: dir, disk: faulty}
		l, err := Acquire(context.Background(), m, o)
		require.NoError(t, err)
		defer stopRenewing(l)
		worker, until := l.Worker(), l.Grant().To
		fails.Store(true)
		time.Sleep(span / 2)
		require.ErrorIs(t, l.Stats().LastError, errFault)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, book.RecordPrefix)))
		fails.Store(false)
		time.Sleep(span)
		assert.NotEqual(t, worker, l.Worker())
		assert.EqualValues(t, 1, l.Stats().Replacements)
		assert.Equal(t, StateHeld, m.record(worker).State)
		assert.Equal(t, until, m.record(worker).Bound())
	})
}
