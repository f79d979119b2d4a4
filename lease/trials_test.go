package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// What trials on real servers found, and what a deploy may meet.

// In the middle of a deploy that raises the window, each process keeps to its own window, and judges others by theirs.
func TestDeployThatRaisesTheWindow(t *testing.T) {
	const before, after = 3 * time.Second, 30 * time.Second
	for _, ownClock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, seen := newMemory(), map[snowflake.ID]bool{}
			m.ownClock = ownClock
			start := func(owner string, window time.Duration) (*holder, error) {
				h, err := acquire(t, m, fleet, clockAt(0), named(owner), windowed(window), stops, func(o *Options) { o.Count = 4 })
				if err == nil {
					h.seen = seen
				}
				return h, err
			}
			var old, raised []*holder
			for i := range 4 {
				h, err := start(fmt.Sprint("old ", i), before)
				require.NoError(t, err)
				old = append(old, h)
			}
			for i := range 2 {
				require.NoError(t, old[0].Release(t.Context()))
				old = old[1:]
				begun := time.Now()
				h, err := start(fmt.Sprint("raised ", i), after)
				require.NoError(t, err)
				assert.Zero(t, time.Since(begun), "a released worker ID is free at once")
				raised = append(raised, h)
			}
			live := func(d time.Duration, holders ...*holder) {
				t.Helper()
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * ms) {
					for _, h := range holders {
						h.next()
					}
				}
			}
			all := []*holder{old[0], old[1], raised[0], raised[1]}
			for _, window := range []time.Duration{before, after} {
				for range 10 {
					_, err := start("one too many", window)
					require.ErrorIs(t, err, ErrExhausted, "a renewal comes less often than the other window is long")
				}
			}
			live(after, all...)

			m.set(func() { m.down = true })
			live(before/2, all...)
			live(after/2, raised...)
			old[0].refused(errDown)
			m.set(func() { m.down = false })
			live(after/2, raised...)
			live(after, all...)

			m.wipe()
			live(whole, all...)
			assert.Equal(t, 4, m.count(), "the records are back")

			for _, crash := range []struct {
				*holder
				window time.Duration
			}{{old[0], before}, {raised[0], after}} {
				stopRenewing(crash.Lease)
				begun := time.Now()
				h, err := start("in its place", after)
				require.NoError(t, err)
				assert.Equal(t, crash.Worker(), h.Worker())
				assert.WithinRange(t, time.Now(), begun.Add(crash.window*2/3), begun.Add(crash.window+crash.window/3), "after the window of the holder that crashed")
				live(time.Second, h, old[1], raised[1])
				require.NoError(t, h.Release(t.Context()))
				h, err = start("there", after)
				require.NoError(t, err)
				live(time.Second, h)
			}
			assert.NoError(t, errors.Join(old[1].Err(), raised[1].Err()), "no live holder lost its worker ID")
		})
	}
}

// The store loses renewals, and then the holder releases its worker ID. The bound is not before what it stamped.
func TestReleaseAfterStoreLosesRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		old := m.record(0)
		time.Sleep(3 * span)
		last := h.next()
		m.set(func() { m.change(0, func(r *Record) { *r = old }) })
		require.NoError(t, h.Release(t.Context()))
		assert.False(t, m.record(0).Bound().Before(last.Time.Add(ms)), "the bound %v is before the end of the last tick, %v", m.record(0).Bound(), last.Time)
		next := mustAcquire(t, m, plain, clockAt(-100*ms))
		next.seen = h.seen
		next.next()
	})
}

// An outage that outlasts the window is an ERROR as soon as the window ends, however long it is, and a longer outage is no
// reason to ask less often.
func TestEndOfALongWindowIsLoggedAtOnce(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, log := newMemory(), new(logged)
			stopped := make(chan time.Time, 1)
			log.hook = func(message string) {
				if message == "lease: no IDs are issued: the window has ended" {
					stopped <- time.Now()
				}
			}
			h := mustAcquire(t, m, plain, clockAt(0), windowed(MaxWindow), func(o *Options) { o.Logger = slog.New(log) })
			h.next()
			if lost {
				m.take(0, "b")
			}
			m.set(func() { m.refuses = map[int]bool{0: true} })
			at, end := <-stopped, h.Grant().To
			assert.WithinRange(t, at, end, end.Add(MaxWindow/20))
			m.set(func() { m.refuses = nil })
			time.Sleep(2 * MaxWindow)
			h.next()
		})
	}
}

// If another fault takes the place of the first, the log has it.
func TestCauseThatChangesIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newMemory(), new(logged)
		mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Logger = slog.New(log) })
		m.set(func() { m.down = true })
		time.Sleep(10 * span)
		log.take()
		m.set(func() { m.down, m.bad = false, true })
		time.Sleep(10 * span)
		assert.ErrorIs(t, log.attr("error").(error), ErrBadRecord)
		assert.Equal(t, []string{"WARN lease: renewals fail"}, log.take(), "once")
	})
}

func TestDurationsInJSONLogsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := mustAcquire(t, newMemory(), plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		assert.Contains(t, log.String(), `"window":"3s"`)
		require.NoError(t, h.Release(t.Context()))
	})
}

// Two saves get no answer. The earlier one is stored after all, when the holder reads its record again.
func TestHolderContinuesAfterALateOlderSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), windowed(time.Minute), stops)
		h.next()
		var late []Record
		m.onSave = func() {}
		for range 2 {
			r := *h.record.Load()
			h.op <- struct{}{}
			m.set(func() { m.refuses = map[int]bool{0: true} })
			require.Error(t, h.push(t.Context(), h.window.to.Add(time.Duration(len(late)+1)*time.Second), time.Now()))
			late = append(late, h.tried[len(h.tried)-1])
			h.unknown = len(late) > 1 // the second save is made without a look
			h.unlock()
			require.Equal(t, r.version, h.record.Load().version)
		}
		m.set(func() {
			m.refuses = nil
			m.change(0, func(r *Record) { *r = late[0] })
		})
		time.Sleep(time.Minute)
		require.NoError(t, h.Err())
		h.next()
	})
}

// Whois of an owner with a LocalCopy, which may issue IDs that the store is not told of.
func TestWhoisOfALocalCopy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		from := h.Grant().From
		m.set(func() { m.down = true })
		time.Sleep(time.Minute)
		last := h.next()
		m.set(func() { m.down = false })
		whois := func(at time.Time) (Holding, error) {
			id, err := fleet.Encode(snowflake.Parts{Worker: h.Worker(), Time: at})
			require.NoError(t, err)
			return Whois(t.Context(), m, id)
		}
		by, err := whois(last.Time)
		assert.ErrorIs(t, err, ErrUntold, "the store was away")
		assert.Equal(t, h.o.Owner, by.Owner)
		_, err = whois(from.Add(-ms))
		assert.ErrorIs(t, err, ErrNeverIssued, "nobody had the worker ID before")
		time.Sleep(span)
		by, err = whois(last.Time)
		assert.NoError(t, err, "the store was told")
		assert.Equal(t, h.o.Owner, by.Owner)
	})
}

// The record of a newcomer is removed before its mark is made. The newcomer does not use the worker ID.
func TestRecordThatIsRemovedBeforeItsMarkIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		removed := none
		h := mustAcquire(t, beforeMark{m, func(worker int) {
			if removed == none {
				removed = worker
				m.set(func() { m.drop(worker) })
			}
		}}, fleet, clockAt(0))
		assert.NotEqual(t, removed, h.Worker())
		assert.Equal(t, "a", m.record(h.Worker()).Owner)
		h.next()
	})
}

// beforeMark is a store with a call before a mark is made.
type beforeMark struct {
	*memory
	call func(worker int)
}

func (s beforeMark) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	if worker, ok := workerOf(markPrefix, key); ok {
		s.call(worker)
	}
	return s.memory.Put(ctx, key, old, value)
}
