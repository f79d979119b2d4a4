//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

func TestAcquireReturnsAtOnceOnlyWhatNeverMends(t *testing.T) {
	for _, err := range []error{
		ErrBadRecord, &LayoutError{}, ErrInvalidOptions, errors.ErrUnsupported, snowflake.ErrInvalidLayout,
		fmt.Errorf("%w: WRONGPASS", ErrRefused),
		&FileError{Err: &fs.PathError{Err: syscall.EACCES}}, &FileError{Err: &fs.PathError{Err: syscall.ENOTDIR}},
		&ExhaustedError{}, ErrWiped, ErrLost,
	} {
		assert.False(t, mayMend(err), "%v", err)
	}
	for _, err := range []error{
		ErrAway, io.EOF, errDown, context.DeadlineExceeded, os.NewSyscallError("read", syscall.ECONNRESET),
		&net.DNSError{IsNotFound: true}, &net.OpError{Op: "dial", Err: syscall.EPERM},
		&FileError{Err: &fs.PathError{Err: syscall.ENOSPC}}, &FileError{Err: &fs.PathError{Err: syscall.EROFS}},
		&FileError{Err: &fs.PathError{Err: syscall.EDQUOT}}, errors.New("OOM command not allowed"),
		&ClockLeapError{}, &snowflake.ClockBackwardError{}, ErrClockUnsynchronized,
	} {
		assert.True(t, mayMend(err), "%v", err)
	}
}

func TestErrorWithACauseIsNoTimeout(t *testing.T) {
	late, refused := context.DeadlineExceeded, syscall.ECONNREFUSED
	for _, err := range []error{
		late, context.Canceled, os.ErrDeadlineExceeded, &FileError{Err: fmt.Errorf("write: %w", late)},
		&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, errors.New("rpc error: desc = context deadline exceeded"),
		fmt.Errorf("%w: %w", ErrAway, late), book.Once(fmt.Errorf("lease: the store did not answer in time: %w", late)), errors.Join(late, late),
	} {
		assert.True(t, book.IsTimeout(err), "%v", err)
	}
	for _, err := range []error{
		nil, errDown, ErrAway, refused, fmt.Errorf("%w: %w", late, &net.OpError{Op: "dial", Err: refused}), errors.Join(refused, late),
	} {
		assert.False(t, book.IsTimeout(err), "%v", err)
	}
}

// told returns the lines of a log with this message.
func told(log *bytes.Buffer, message string) (lines []string) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, message) {
			lines = append(lines, line)
		}
	}
	return lines
}

// While a start waits, its log says for what, until when, and what changes. It takes a worker ID
// when the trouble has passed.
func TestStartWaitsForWhatMayPassAndSaysForWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		fails := func(why string) func() {
			return func() {
				m.becomes(func(context.Context, *query, asks) error { return errors.New(why) })
			}
		}
		fails("OOM command not allowed")()
		time.AfterFunc(40*time.Second, fails("MISCONF errors writing to disk"))
		time.AfterFunc(80*time.Second, func() { m.becomes() })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		l, err := Acquire(ctx, m, &Options{Layout: plain, NewStore: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer l.Release(t.Context())
		synctest.Wait()
		lines := told(&log, "no worker ID could be acquired yet")
		require.Len(t, lines, 2, log.String())
		assert.Contains(t, lines[0], "OOM")
		assert.Contains(t, lines[1], "MISCONF")
		by, _ := ctx.Deadline()
		assert.Contains(t, lines[0], "asked again, until "+by.UTC().Format(time.RFC3339))
	})
}

// A cause that changes is logged, even if the later errors are time-outs that have a cause of their
// own.
func TestCauseThatChangesIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		becomes := func(err error) {
			m.becomes(func(ctx context.Context, _ *query, _ asks) error {
				if err == nil {
					<-ctx.Done()
					return ctx.Err()
				}
				return err
			})
			time.Sleep(3 * span)
		}
		oom, refused := errors.New("OOM"), fmt.Errorf("%w: %w", context.DeadlineExceeded, syscall.ECONNREFUSED)
		becomes(oom)
		require.ErrorIs(t, h.Stats().LastError, oom)
		becomes(refused)
		assert.ErrorIs(t, h.Stats().LastError, syscall.ECONNREFUSED)
		m.becomes(hangs, ofSaves(hangs))
		time.Sleep(span / 2) // a time-out says less than the error before it
		assert.ErrorIs(t, h.Stats().LastError, syscall.ECONNREFUSED)
		becomes(nil)
		assert.NotErrorIs(t, h.Stats().LastError, syscall.ECONNREFUSED)
		synctest.Wait()
		lines := told(&log, "renewals fail")
		require.Len(t, lines, 3, log.String())
		assert.Contains(t, lines[0], "OOM")
		assert.Contains(t, lines[1], "refused")
		assert.NotContains(t, lines[2], "refused")
		assert.Contains(t, lines[2], "did not answer in time")
	})
}

// After an overlap nothing more is stamped, so what was stamped ends then.
func TestAfterAnOverlapTheLogSaysUntilWhenIDsWereStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), stops, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		var older Entry
		m.set(func() { older = m.entries[book.RecordKey(0)] })
		time.Sleep(span) // it is renewed
		h.next()
		m.set(func() { m.store(&query{do: "put", key: older.Key, value: older.Value}) })
		m.take(0, "b")
		<-h.Done()
		at := time.Now().UTC()
		synctest.Wait() // the log is written after that
		require.Len(t, told(&log, "IDs may have repeated"), 1, log.String())
		lines := told(&log, "worker ID lost")
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "until="+at.Format("2006-01-02T15:04:05.000Z"))
	})
}

// tells is a store whose engine can be asked for its settings.
type tells struct {
	*memory
	unsafe []string
	err    error
}

func (s tells) Settings(context.Context) ([]string, error) { return s.unsafe, s.err }

// MaxClockError is for a start: while nobody sets the clock, a lost worker ID is replaced all the
// same.
func TestUnsynchronizedClockDoesNotKeepALostWorkerIDFromBeingReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernelSays(t, ClockSync{Known: true, Synchronized: true})
		m := newMemory()
		l, err := Acquire(t.Context(), m, &Options{NewStore: true, MaxClockError: time.Second, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		kernelSays(t, ClockSync{Known: true})
		was := l.Worker()
		m.take(was, "b")
		time.Sleep(time.Minute)
		require.NotEqual(t, was, l.Worker())
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestLeaseWarnsOfUnsafeSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			store  tells
			logged string // empty: nothing
		}{
			{tells{unsafe: []string{"a = 1", "b = 2"}}, `level=WARN msg="lease: the store may lose acknowledged writes, and then IDs may repeat" worker=0 owner=a settings="a = 1, b = 2"`},
			{tells{err: errDown}, `level=INFO msg="lease: the store's settings cannot be read" worker=0 owner=a error="the store is away"`},
			{tells{}, ""},
		} {
			var log bytes.Buffer
			test.store.memory = newMemory()
			h := mustAcquire(t, test.store, plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			synctest.Wait()
			assert.Equal(t, test.store.unsafe, h.Stats().Unsafe)
			assert.Contains(t, log.String(), test.logged)
			assert.Equal(t, test.logged != "", strings.Contains(log.String(), "settings"), log.String())
			require.NoError(t, h.Release(t.Context()))
		}
	})
}

// An unreadable entry "store" hides no holder.
func TestHoldersReturnsTheHoldersBesideAnUnreadableStore(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		mustAcquire(t, m, plain, clockAt(0))
		m.set(func() { m.store(&query{do: "put", key: book.DoorKey, value: []byte("?")}) })
		holders, err := Holders(t.Context(), m)
		require.ErrorIs(t, err, ErrBadRecord)
		require.Len(t, holders, 1)
	})
}

// A holder that has put back what the store lost asks no more than before.
func TestHealedHolderRenewsByOneRequest(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, plain, clockAt(0), unnamed)
		m.set(func() { clear(m.entries) })
		time.Sleep(protocol.Healing(ms) + 2*span)
		m.set(func() { m.asked = 0 })
		renewals := h.Stats().Renewals
		time.Sleep(span)
		require.Greater(t, h.Stats().Renewals, renewals)
		m.set(func() { require.Zero(t, m.asked) })
	})
}

// An entry "store" that is no door counts as unreadable, and is made anew.
func TestEntryThatIsNoDoorIsMadeAnew(t *testing.T) {
	for _, value := range []string{"null", "{}", `{"name":"x"}`, `{"open":true}`, `{"name":"x","open":true}`} {
		withMemory(t, func(t *testing.T, m *memory) {
			mustAcquire(t, m, fleet, clockAt(0))
			m.stores(book.DoorKey, value)
			require.NoError(t, m.starts(t, "b", protocol.Healing(ms)+span), value)
		})
	}
}

// After a wipe, a program of another layout looks at the store first. It stops nobody, and gets no
// worker ID: neither before nor after a holder has put its record back.
func TestWrongLayoutThatIsFirstAfterAWipe(t *testing.T) {
	for _, after := range []time.Duration{0, span} {
		withMemory(t, func(t *testing.T, m *memory) {
			h := mustAcquire(t, m, fleet, clockAt(0))
			time.Sleep(span/3 + span/10)
			m.set(func() { clear(m.entries) })
			time.Sleep(after)
			wrong := make(chan error)
			go func() { wrong <- m.starts(t, "wrong", 10*time.Minute, func(o *Options) { o.Layout = both }) }()
			time.Sleep(span)
			assert.NoError(t, m.starts(t, "b", protocol.Healing(ms)+span))
			assert.ErrorIs(t, <-wrong, ErrLayout)
			h.next()
		})
	}
}

// After a wipe that was healed, an owner that keeps its worker ID still has this one, and no other.
func TestOwnerKeepsItsWorkerIDAfterAWipe(t *testing.T) {
	for range 9 {
		synctest.Test(t, func(t *testing.T) {
			m, layout := newMemory(), plain
			layout.WorkerBits = 1
			h := mustAcquire(t, m, layout, clockAt(0), reuse(ReuseKeep))
			m.set(func() { clear(m.entries) })
			time.Sleep(protocol.Healing(ms) + 2*span)
			require.NoError(t, h.Release(t.Context()))
			time.Sleep(span)
			again := mustAcquire(t, m, layout, clockAt(0), reuse(ReuseKeep))
			require.Equal(t, h.Worker(), again.Worker())
			mustAcquire(t, m, layout, clockAt(0), reuse(ReuseKeep), named("b"))
		})
	}
}

// The record of the owner's former worker ID is lost, and no other worker ID is free. The owner takes
// it once the wait for it is over, also if the host's clock is behind the store's, and does not ask
// the store all the time until then.
func TestLostRecordIsTakenByAHostWhoseClockIsBehind(t *testing.T) {
	for _, ahead := range []time.Duration{0, 5 * ms, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			m, layout := newMemory(), plain
			layout.WorkerBits, m.ownClock, m.offset = 1, true, ahead
			mustAcquire(t, m, layout, clockAt(0))
			former := mustAcquire(t, m, layout, clockAt(0), named("b"))
			require.NoError(t, former.Release(t.Context()))
			m.set(func() { delete(m.entries, book.RecordKey(former.Worker())) })
			before := m.asked
			in := func(o *Options) { o.Layout, o.Window = layout, span }
			require.NoError(t, m.starts(t, "b", protocol.Healing(ms)+span+ahead, in), "ahead by %v", ahead)
			require.Less(t, m.asked-before, int(30*protocol.Healing(ms)/span), "requests, ahead by %v", ahead)
		})
	}
}

// Starts that are just longer than 150 ms get through, if their host does not say when it was
// booted.
func TestShortStartsGetThrough(t *testing.T) {
	for _, each := range []time.Duration{160 * ms, 200 * ms, 240 * ms} {
		withMemory(t, func(t *testing.T, m *memory) {
			err := ErrWiped
			for begun := time.Now(); err != nil && time.Since(begun) < 5*time.Minute; {
				err = m.starts(t, "a", each)
			}
			require.NoError(t, err)
		})
	}
}

// If nothing shows that a store was used, the log of a start that waits names Init. So does Holders.
func TestStartOnANewStoreAdvisesInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		require.ErrorIs(t, m.starts(t, "a", time.Second, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }), ErrWiped)
		assert.Contains(t, log.String(), "; if the store is new, lease.Init (snowflaked init) opens it at once")
		_, err := Holders(t.Context(), m)
		require.ErrorIs(t, err, ErrWiped)
		assert.ErrorContains(t, err, "; if the store is new, lease.Init (snowflaked init) opens it at once")
	})
}

// A process that had a worker ID knows that the store is not new, even if the store has lost every
// entry. Its log does not name Init, which would open the store while other holders live.
func TestHolderOfAWipedStoreDoesNotAdviseInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		mustAcquire(t, m, plain, clockAt(0), named("a"), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		m.becomes(down)
		time.Sleep(2 * span)
		m.set(func() { clear(m.entries) })
		m.becomes()
		time.Sleep(span)
		synctest.Wait()
		lines := told(&log, "the store is new, or has lost entries")
		require.NotEmpty(t, lines)
		assert.Contains(t, lines[0], `found="a worker ID that this process had"`)
		assert.NotContains(t, log.String(), "init")
	})
}

// Two copies of a machine have one boot ID, and clocks since then that differ. The wait after a
// wipe is as long as ever.
func TestCopiesOfAMachineShortenNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, off := time.Now(), time.Duration(0)
		machine.BootClock = func() (string, time.Duration, time.Duration) { return "h", time.Hour + time.Since(begun) + off, 0 }
		defer func() { machine.BootClock = noBoot }()
		m := newMemory()
		require.ErrorIs(t, m.starts(t, "a", time.Second), ErrWiped)
		off = protocol.Healing(ms)
		require.ErrorIs(t, m.starts(t, "b", time.Minute), ErrWiped)
	})
}

// refusesAll is a store that does not save what has one of the prefixes, and does not say why: it
// takes each version for another. PostgreSQL does so if a policy hides the rows of an UPDATE.
func refusesAll(prefixes ...string) fault {
	return func(ctx context.Context, q *query, next asks) error {
		time.Sleep(5 * ms)
		if q.writes() && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(q.key, p) }) {
			return ErrConflict
		}
		return next(ctx, q)
	}
}

// counts counts requests.
func counts(n *atomic.Int64) fault {
	return func(ctx context.Context, q *query, next asks) error {
		n.Add(1)
		return next(ctx, q)
	}
}

func TestStoreThatTakesEachVersionForAnotherIsAskedAtIntervals(t *testing.T) {
	inBubble(t, "a renewal", func(t *testing.T) {
		var n atomic.Int64
		var log bytes.Buffer
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		m.becomes(refusesAll(book.RecordPrefix), counts(&n))
		time.Sleep(time.Minute)
		assert.Less(t, n.Load(), int64(2000))
		assert.NotZero(t, h.Stats().Failures)
		require.ErrorIs(t, h.Stats().LastError, ErrConflict)
		h.refused(ErrConflict)
		m.becomes()
		time.Sleep(3 * time.Second)
		h.next()
		require.NoError(t, h.Release(t.Context()))
		assert.Contains(t, log.String(), "the store refuses to save the record of worker 0")
	})
	for _, key := range []string{book.RecordPrefix, book.DoorKey, book.MarkPrefix, book.OwnerPrefix} {
		inBubble(t, "a start, "+key, func(t *testing.T) {
			var n atomic.Int64
			var log bytes.Buffer
			m := newMemory()
			m.becomes(refusesAll(key), counts(&n))
			begun := time.Now()
			_, err := Acquire(context.Background(), m, &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep, NewStore: true,
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			says := map[bool]string{false: "the store has refused 16 saves in turn", true: "the store refuses to save the entry mark/"}[key == book.MarkPrefix]
			require.ErrorContains(t, err, says)
			require.NotErrorIs(t, err, ErrWiped)
			assert.LessOrEqual(t, time.Since(begun), 3*time.Minute)
			assert.Less(t, n.Load(), int64(5000))
			assert.True(t, mayMend(err))
			assert.Contains(t, log.String(), says)
		})
	}
	for _, key := range []string{book.DoorKey, book.WatermarkKey} {
		inBubble(t, "a reading of the watermark, "+key, func(t *testing.T) {
			var n atomic.Int64
			m := newMemory()
			mustAcquire(t, m, fleet, clockAt(0))
			if key == book.WatermarkKey { // a reader ended before it published what it had proposed
				m.mark(t)
				value, err := json.Marshal(protocol.Watermark{Proposed: time.Now(), Published: time.Now().Add(-span)})
				require.NoError(t, err)
				m.stores(key, string(value))
			}
			m.becomes(refusesAll(key), counts(&n))
			_, err := Watermark(t.Context(), m)
			require.ErrorIs(t, err, ErrConflict)
			assert.LessOrEqual(t, n.Load(), int64(4*book.MaxConflicts))
		})
	}
}

// A start that waits for its window says so, when it begins to wait and when its time is up.
func TestStartThatWaitsForItsWindowSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		o := &Options{Layout: plain, NewStore: true, Window: time.Minute, Clock: clockAt(0)}
		l, err := Acquire(t.Context(), m, o)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context())) // without a generator: the bound stays
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = Acquire(ctx, m, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, snowflake.ErrClockBackward)
		assert.Contains(t, log.String(), "no worker ID could be acquired yet")
	})
}

// A start that finds each worker ID in use gives up after one and a half windows, and its log says so.
func TestStartWithoutAFreeWorkerIDSaysWhenItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemory()
		defer mustAcquire(t, m, fleet, clockAt(0), named("a"), reuse(ReuseKeep)).Release(t.Context())
		begun := time.Now()
		_, err := Acquire(t.Context(), m, &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.ErrorIs(t, err, ErrExhausted)
		until := begun.Add(span * 3 / 2)
		require.False(t, time.Now().After(until))
		lines := told(&log, "no worker ID could be acquired yet")
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "asked again, until "+until.UTC().Format(time.RFC3339))
	})
}

// Those who wait for a store's door save their progress in turn, and often meet each other's saves.
func TestNewcomersThatWaitTogetherDoNotTakeTheStoreForBroken(t *testing.T) {
	for range depth.Of(5, 20) {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			m := newMemory()
			m.becomes(answersAfter(50 * ms))
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					assert.NoError(t, m.starts(t, fmt.Sprint(i), 5*time.Minute, func(o *Options) { o.Logger = logger }))
				})
			}
			all.Wait()
			assert.NotContains(t, log.String(), "the store has refused")
		})
	}
}

// The layout of each record counts, and not only the store's: another layout's IDs could repeat.
func TestRecordOfAnotherLayoutIsNotTaken(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
		require.NoError(t, h.Release(t.Context()))
		m.change(h.Worker(), func(r *protocol.Record) { r.Layout.Epoch++ })
		was := m.record(h.Worker())
		_, err := acquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
		var layout *LayoutError
		require.ErrorAs(t, err, &layout)
		assert.Equal(t, LayoutError{Worker: h.Worker(), Where: "the store", Has: was.Layout, Want: fleet}, *layout)
		assert.Equal(t, was, m.record(h.Worker()))
	})
}
