package lease

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func withCopy(dir string) func(*Options) {
	return func(o *Options) { o.Reuse, o.LocalCopy = ReuseKeep, dir }
}

func (m *memory) setDown(down bool) { m.set(func() { m.down = down }) }

// also makes h fail if it repeats an ID of the other holder.
func (h *holder) also(other *holder) *holder {
	maps.Copy(h.seen, other.seen)
	return h
}

func TestLocalCopyNeedsReuseKeep(t *testing.T) {
	for _, r := range []Reuse{ReuseAny, ReuseOnce} {
		_, err := acquire(t, newMemory(), fleet, clockAt(0), withCopy(t.TempDir()), reuse(r))
		require.ErrorIs(t, err, ErrInvalidOptions)
	}
}

func TestLocalCopyStartsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		other := mustAcquire(t, m, fleet, clockAt(0), named("b"))
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		assert.NotEqual(t, other.Worker(), h.Worker())
		h.next()
		bound := h.Stats().Bound
		stopRenewing(h.Lease) // as a crash would
		m.setDown(true)
		again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).also(h)
		assert.Equal(t, h.Worker(), again.Worker())
		from := again.Grant().From
		assert.False(t, from.Before(bound))
		require.ErrorIs(t, again.Stats().Away, errDown)
		for range 100 { // longer than any window
			again.next()
			time.Sleep(span / 7)
		}
		require.NoError(t, again.Release(t.Context()))

		at := again.g.Decode(lastOf(again)).Time
		r, err := getRecord(t.Context(), File(dir), h.Worker())
		require.NoError(t, err)
		assert.Equal(t, at.Add(ms), r.Bound(), "a release is exact in the copy, too")
		third := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).also(again)
		third.next()
		m.setDown(false)
		time.Sleep(span)
		require.NoError(t, third.Stats().Away)
		assert.Equal(t, third.Stats().Bound, m.record(h.Worker()).Bound())
		assert.Equal(t, third.record.Load().Token, m.record(h.Worker()).Token)
		third.next()

		m.setDown(true)
		time.Sleep(span)
		third.next()
		bound = third.Stats().Bound
		stopRenewing(third.Lease)
		m.setDown(false) // before the store was told
		fourth := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).also(third)
		from = fourth.Grant().From
		assert.WithinRange(t, from, bound, bound.Add(ms), "it waited for the bound that the copy has")
		fourth.next()
	})
}

func lastOf(h *holder) (last snowflake.ID) {
	for id := range h.seen {
		last = max(last, id)
	}
	return last
}

func TestLocalCopyRenewsWhileTheStoreIsAway(t *testing.T) {
	for name, fault := range map[string]func(m *memory, on bool){
		"down":    func(m *memory, on bool) { m.down = on },
		"answers": func(m *memory, on bool) { m.loseAnswer = on },
		"hanging": func(m *memory, on bool) {
			m.slow = 0
			if on {
				m.slow = time.Hour
			}
		},
		"delaying": func(m *memory, on bool) {
			m.delay = 0
			if on {
				m.delay = 2 * span
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				h := mustAcquire(t, m, fleet, clockAt(0), withCopy(t.TempDir()))
				for range 3 {
					m.set(func() { fault(m, true) })
					for range 50 {
						time.Sleep(span / 10)
						h.next()
					}
					m.set(func() { fault(m, false) })
					time.Sleep(5 * span)
					h.next()
					require.NoError(t, h.Stats().Away)
					assert.Equal(t, h.Stats().Bound, m.record(h.Worker()).Bound())
				}
				assert.Zero(t, h.Stats().Failures)
			})
		})
	}
}

func TestLocalCopyStartsWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		require.NoError(t, h.Release(t.Context()))
		m.set(func() { m.hangs, m.slow = true, time.Hour })
		again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).also(h)
		for range 20 {
			again.next()
			time.Sleep(span / 4)
		}
	})
}

func TestLocalCopyNeedsTheStoreOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		m.setDown(true)
		_, err := acquire(t, m, fleet, clockAt(0), withCopy(dir))
		require.ErrorIs(t, err, errDown)
		m.setDown(false)
		mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		m.setDown(true)
		_, err = acquire(t, m, fleet, clockAt(0), withCopy(dir), named("b"))
		require.ErrorIs(t, err, errDown, "the copy is another owner's")
	})
}

func TestLocalCopyHasOneHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		m.ownClock, m.offset = true, -50*time.Second
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		for _, down := range []bool{false, true} {
			m.setDown(down)
			_, err := acquire(t, m, fleet, clockAt(0), withCopy(dir))
			require.ErrorIs(t, err, ErrExhausted)
			h.next()
		}
		m.setDown(false)
		time.Sleep(time.Hour)
		h.next()
		require.NoError(t, h.Stats().LastError)
		h.c.step(30 * time.Second) // 80 s ahead of the store
		time.Sleep(span)
		require.ErrorIs(t, h.Stats().LastError, ErrClockLeap)
	})
}

// If a process is stopped for longer than a window, another process may take its local copy. Then the first
// one issues no more IDs.
func TestLocalCopyOfAPausedProcessIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir), stops)
		m.setDown(true)
		require.NoError(t, h.lock(t.Context())) // renews no more
		time.Sleep(2 * span)
		again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).also(h)
		assert.Equal(t, h.Worker(), again.Worker())
		again.next()
		h.unlock()
		h.refused(snowflake.ErrLeaseExpired)
		time.Sleep(span)
		require.ErrorIs(t, h.Err(), ErrLost)
		again.next()
	})
}

func TestOwnerThatLosesItsLocalCopyIsAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), filepath.Join(t.TempDir(), "a", "b")
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, os.RemoveAll(dir))
		mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		assert.Equal(t, 2, m.count())
		mustAcquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
		assert.Equal(t, 3, m.count(), "nor is one without a copy")
	})
}

// If the record was lost, and another owner gets the worker ID, the local copy of it is not used: not even if the
// store is away.
func TestLocalCopyIsNotUsedIfAnotherOwnerHasTheWorkerID(t *testing.T) {
	for _, lives := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, dir := newMemory(), t.TempDir()
			h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
			lost := h.Worker()
			if !lives {
				stopRenewing(h.Lease)
			}
			m.take(lost, "b")
			m.touch(lost)
			time.Sleep(span)
			if !lives {
				h = mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
			}
			assert.NotEqual(t, lost, h.Worker())
			assert.Equal(t, "b", m.record(lost).Owner)
			stopRenewing(h.Lease)
			time.Sleep(3 * span)
			m.setDown(true)
			assert.Equal(t, h.Worker(), mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).Worker())
		})
	}
}

// A holder that finds out that another owner has its worker ID removes the local copy, so that no start uses it while
// the store is away.
func TestLocalCopyOfALostWorkerIDIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir), stops)
		m.take(h.Worker(), "b")
		time.Sleep(span)
		require.ErrorIs(t, h.Err(), ErrLost)
		m.setDown(true)
		_, err := acquire(t, m, fleet, clockAt(0), withCopy(dir))
		require.ErrorIs(t, err, errDown)
	})
}

// If the store lost the record, a holder with a local copy puts it back, also after it was away.
func TestLocalCopyIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, plain, clockAt(0), withCopy(dir))
		m.wipe()
		time.Sleep(span)
		h.next()
		assert.Equal(t, h.Stats().Bound, m.record(0).Bound())
		assert.Contains(t, m.entries, markKey(0))
		stopRenewing(h.Lease)
		m.set(func() { m.drop(0) })
		h = mustAcquire(t, m, plain, clockAt(0), withCopy(dir)).also(h)
		h.next()
		assert.Equal(t, h.Stats().Bound, m.record(0).Bound())
	})
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

func TestLocalCopyServesSeveralOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		holders := map[string]*holder{}
		for _, name := range []string{"a", "b", "c"} {
			holders[name] = mustAcquire(t, m, fleet, clockAt(0), withCopy(dir), named(name))
		}
		m.setDown(true)
		for name, h := range holders {
			require.NoError(t, h.Release(t.Context()))
			again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir), named(name)).also(h)
			assert.Equal(t, h.Worker(), again.Worker())
			again.next()
		}
		m.setDown(false)
		time.Sleep(2 * span)
		_, err := acquire(t, m, fleet, clockAt(0), withCopy(dir), named("b"))
		require.ErrorIs(t, err, ErrExhausted, "it lives")
		assert.Equal(t, 3, m.count())
	})
}

// If the store's record cannot be read, Acquire fails, although the local copy can be read.
func TestLocalCopyDoesNotHideAnUnreadableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		require.NoError(t, h.Release(t.Context()))
		m.set(func() { m.bad = true })
		_, err := acquire(t, m, fleet, clockAt(0), withCopy(dir))
		require.ErrorIs(t, err, ErrBadRecord)
	})
}

// If a local copy is removed, nobody knows which times its owner stamped. So the worker ID is not used
// again.
func TestRemovedLocalCopyUsesUpItsWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		stopRenewing(h.Lease)
		require.NoError(t, os.Remove(filepath.Join(dir, recordKey(h.Worker()))))
		again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		assert.NotEqual(t, h.Worker(), again.Worker())
		m.setDown(true)
		time.Sleep(2 * span)
		again.next()
	})
}

// A local copy disappears if its file system is unmounted, for example, and may come back.
func TestHolderStopsIfItsLocalCopyIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, down := range []bool{false, true} {
			m, dir := newMemory(), t.TempDir()
			h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir), stops)
			m.setDown(down)
			path := filepath.Join(dir, recordKey(h.Worker()))
			require.NoError(t, os.Rename(path, path+".away"))
			time.Sleep(span + span/2)
			h.refused(snowflake.ErrLeaseExpired)
			require.ErrorIs(t, h.Err(), ErrLost)

			m.setDown(false)
			again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
			assert.NotEqual(t, h.Worker(), again.Worker())
			require.NoError(t, again.Release(t.Context()))
			require.NoError(t, os.Rename(path+".away", path))
			mustAcquire(t, m, fleet, clockAt(0), withCopy(dir)).also(h).next()
		}
	})
}

func TestOldLocalCopyDoesNotMoveBoundsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, seqs, clockAt(0), withCopy(dir))
		path := filepath.Join(dir, recordKey(0))
		old, err := os.ReadFile(path)
		require.NoError(t, err)
		h.next()
		h.c.step(-time.Hour)
		h.next() // under another clock sequence
		time.Sleep(10 * span)
		h.next()
		stopRenewing(h.Lease)
		bounds := m.record(0).Bounds
		require.NoError(t, h.Stats().Away)
		require.Len(t, bounds, 2)
		require.NoError(t, os.WriteFile(path, old, 0o644))
		mustAcquire(t, m, seqs, clockAt(-time.Hour-15*span), withCopy(dir))
		for i, bound := range bounds {
			assert.False(t, m.record(0).Bounds[i].Before(bound))
		}
	})
}

func TestHolderWithLocalCopyContinuesAfterSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(t.TempDir()))
		for range 3 {
			m.set(func() { m.offset += 10 * time.Minute })
			h.c.step(10 * time.Minute)
			time.Sleep(2 * span)
			h.next()
		}
	})
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
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
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

func TestReuseKeepGivesAnOwnerOneWorkerIDIfSavesAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []func(m *memory){
			func(m *memory) { m.delay = span / 100 },
			func(m *memory) { m.delay = 10 * span },
			func(m *memory) { m.slow = time.Hour },
			func(m *memory) { m.loseAnswer = true },
		} {
			m := newMemory()
			fault(m)
			_, _ = acquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
			time.Sleep(20 * span)
			assert.LessOrEqual(t, m.count(), 1)
		}
	})
}

// If a holding ends while the store is away, it is in the history when the store is back, even if another
// process of the owner writes it.
func TestLocalCopySavesTheHistoryWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, seqs, clockAt(0), withCopy(dir))
		h.next()
		var ended []Holding
		bump := func() {
			ended = append(ended, h.record.Load().holding())
			h.c.step(-10 * time.Second)
			h.next()
		}
		m.setDown(true)
		bump()
		bump()
		assert.Empty(t, m.ended(0))
		m.setDown(false)
		time.Sleep(span)
		assert.Equal(t, ended, m.ended(0))

		m.setDown(true)
		bump()
		ended = append(ended, h.record.Load().holding())
		stopRenewing(h.Lease)
		again := mustAcquire(t, m, seqs, h.c, withCopy(dir)).also(h)
		again.next()
		m.setDown(false)
		time.Sleep(span)
		require.NoError(t, again.Stats().Away)
		assert.Len(t, m.ended(0), len(ended))
		for _, e := range ended {
			assert.True(t, slices.ContainsFunc(m.ended(0), e.same), "%v", e)
		}
		r := m.record(0)
		assert.Equal(t, again.Grant().From, r.From)
		saves := m.saved()
		time.Sleep(span)
		assert.LessOrEqual(t, m.saved(), saves+4, "a renewal is one save again")
	})
}

func TestHolderWithLocalCopyContinuesAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		layout := seqs
		layout.WorkerBits = 4
		h := mustAcquire(t, m, layout, clockAt(0), withCopy(dir))
		h.next()
		m.setDown(true)
		h.c.step(-time.Second)
		h.next() // under another clock sequence, of which the store does not know
		lost := h.Worker()
		m.take(lost, "b")
		m.touch(lost)
		m.setDown(false)
		time.Sleep(2 * span)
		assert.NotEqual(t, lost, h.next().Worker)
		assert.Empty(t, m.ended(h.Worker()), "what ended is of another worker ID")
		m.setDown(true)
		for range 20 {
			time.Sleep(span / 2)
			h.next()
		}
		m.setDown(false)
		time.Sleep(span)
		require.NoError(t, h.Stats().Away)
		assert.Equal(t, h.Grant().To, m.record(h.Worker()).Bound())
		assert.Equal(t, "b", m.record(lost).Owner)
	})
}

// If a worker ID was taken but its mark could not be made, it is given back. If that cannot be told to the store, the
// local copy says that nothing was stamped.
func TestLocalCopyGivesBackWhatItDidNotStamp(t *testing.T) {
	for _, told := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, dir := newMemory(), t.TempDir()
			_, err := acquire(t, unmarked{m, told}, plain, clockAt(0), withCopy(dir))
			require.ErrorIs(t, err, errDown)
			time.Sleep(2 * span)
			m.set(func() { m.refuses = nil })
			assert.Equal(t, told, m.record(0).State == Free)
			assert.Equal(t, told, m.record(0).Owner == "", "others may have it")
			mustAcquire(t, m, plain, clockAt(0), withCopy(dir)).next()
		})
	}
}

// unmarked is a store that makes no marks. When it was asked for a mark, it saves no more records if saves is false.
type unmarked struct {
	*memory
	saves bool
}

func (u unmarked) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	if worker, ok := workerOf(markPrefix, key); ok {
		u.set(func() { u.refuses = map[int]bool{worker: !u.saves} })
		return Entry{}, errDown
	}
	return u.memory.Put(ctx, key, old, value)
}

// However many holdings have ended while the store was away, Whois finds them when it is back.
func TestLocalCopySendsAllOfTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, plain, clockAt(0), withCopy(dir))
		m.setDown(true)
		for range 2*embedded + 1 {
			h.next()
			require.NoError(t, h.Release(t.Context()))
			time.Sleep(ms)
			h = mustAcquire(t, m, plain, clockAt(0), withCopy(dir)).also(h)
		}
		m.setDown(false)
		time.Sleep(span)
		for id := range h.seen {
			_, err := Whois(t.Context(), m, id)
			require.NoError(t, err)
		}
		left, err := File(dir).List(t.Context(), historyPrefix)
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}
