//go:build go1.25

package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// mark returns the watermark's time.
func (m *memory) mark(t *testing.T) time.Time {
	t.Helper()
	mark, err := m.Read(t.Context())
	require.NoError(t, err)
	return fleet.Decode(mark.ID + 1).Time
}

// ago returns how far the watermark is behind.
func (m *memory) ago(t *testing.T) time.Duration { return time.Since(m.mark(t)) }

// withEngine runs a test with a store that has a clock, and with one that has none.
func withEngine(t *testing.T, f func(t *testing.T, m *memory)) {
	for _, own := range []bool{false, true} {
		inBubble(t, fmt.Sprint("engine's clock: ", own), func(t *testing.T) {
			m := newMemory()
			m.ownClock = own
			f(t, m)
		})
	}
}

func floorEvery(d time.Duration) func(*Options) { return func(o *Options) { o.FloorEvery = d } }

// Renewals are more frequent within a window after a reading, and no more frequent else: if nobody
// reads, if the watermark's entry cannot be read, and if the store is away.
func TestRenewalsAreFrequentOnlyWhileTheWatermarkIsRead(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"store": func(*Options) {},
		"copy":  func(o *Options) { o.Reuse, o.LocalCopy = ReuseKeep, t.TempDir() },
	} {
		inBubble(t, name, func(t *testing.T) {
			m := newMemory()
			h := mustAcquire(t, m, fleet, clockAt(0), floorEvery(span/30), change)
			begun := time.Now()
			most := func(from, to uint64) func(string) { // in a window
				was := h.Stats()
				return func(when string) {
					is := h.Stats()
					n := is.Renewals + is.Failures - was.Renewals - was.Failures
					assert.True(t, from <= n && n <= to, "%s: %d renewals, want %d to %d", when, n, from, to)
					h.next()
				}
			}
			window := func(when string, from, to uint64) {
				check := most(from, to)
				time.Sleep(span)
				check(when)
			}
			window("nobody reads", 3, 4)
			read := func() {
				for range 20 {
					_, _ = m.Read(t.Context())
					time.Sleep(span / 20)
				}
			}
			read()
			check := most(29, 36)
			read()
			check("somebody reads")
			time.Sleep(2 * span)
			window("nobody reads any more", 3, 4)
			read()
			m.becomes(hangs)
			time.Sleep(2 * span)
			window("the entry cannot be read", 2, 4)
			m.becomes()
			read()
			m.becomes(down)
			check = most(0, 20)
			time.Sleep(span / 2)
			check("the store is away")
			m.becomes()
			time.Sleep(2 * span)
			window("the store is back", 3, 4)
			require.NoError(t, h.Release(t.Context()))
			h = mustAcquire(t, m, fleet, clockAt(0), floorEvery(span/30), named("b"), change)
			window("nobody has read since before the start", 2, 4)
			assert.Less(t, time.Since(begun), time.Minute)
		})
	}
}

// A holder is not blamed for what an earlier holder of its worker ID may still stamp.
func TestMarkTellsAnEarlierHolderFromThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r := protocol.Record{State: StateHeld, Holder: protocol.Holder{WindowLength: span}, Least: now, Prior: protocol.Prior{Least: now.Add(-9 * span), To: now.Add(9 * span)}}
		low, by := protocol.Lowest([]protocol.Record{r}, now, now, func(protocol.Record) bool { return false })
		require.Equal(t, r.Prior.Least, low)
		w := book.WatchOf(nil)
		v := viewer{watch: &w, asked: book.ThisMoment(), now: now}
		assert.Contains(t, v.why(*by), "an earlier one")
		v.now = r.Prior.To
		assert.NotContains(t, v.why(*by), "an earlier one")
	})
}

// Before every third save of a reader, another reader proposes more, and ends.
func TestNoTimeOfTheWatermarkFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, saves := newMemory(), 0
		mustAcquire(t, m, plain, clockAt(0))
		read := func() protocol.Watermark {
			is, err := book.GetWatermark(m.line())
			require.NoError(t, err)
			return is
		}
		proposing := asks(func(ctx context.Context, q *query) error {
			if q.do != "put" || q.key != book.WatermarkKey {
				return m.asks(ctx, q)
			}
			was := read()
			if saves++; saves%3 == 0 {
				more, err := json.Marshal(protocol.Watermark{Proposed: times.Later(was.Proposed, time.Now()).Add(ms), Published: was.Published})
				require.NoError(t, err)
				_, err = m.Put(ctx, q.key, was.Version, more)
				require.NoError(t, err)
			}
			err := m.asks(ctx, q)
			is := read()
			assert.False(t, is.Proposed.Before(was.Proposed) || is.Published.Before(was.Published), "it falls from %v to %v", was, is)
			return err
		})
		for range 20 {
			time.Sleep(span / 3)
			_, err := Watermark(t.Context(), proposing)
			require.NoError(t, err)
		}
	})
}

// Another reader is quicker, and proposes less. No more than that is published.
func TestNothingIsPublishedThatWasNotProposed(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		mustAcquire(t, m, plain, clockAt(0))
		m.mark(t)
		time.Sleep(2 * span)
		less, quicker := time.Now().Add(-span).UTC(), true
		reader := NewWatermarkReader(asks(func(ctx context.Context, q *query) error {
			if q.do == "put" && q.key == book.WatermarkKey && quicker {
				quicker = false
				is, err := book.GetWatermark(m.line())
				require.NoError(t, err)
				is.Proposed = less
				_, err = book.PutWatermark(m.line(), is)
				require.NoError(t, err)
			}
			return m.asks(ctx, q)
		}))
		_, err := reader.Read(t.Context())
		require.NoError(t, err)
		is, err := book.GetWatermark(m.line())
		require.NoError(t, err)
		assert.Equal(t, less, is.Published)
	})
}

// A store loses the record at each save. Release puts it back, and gives up after book.MaxConflicts.
func TestRecordThatIsLostAtEachSaveIsNotPutBackWithoutEnd(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0))
		requests := 0
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			requests++
			if q.saves() && q.old != "" {
				m.set(func() { delete(m.entries, q.key) })
			}
			return next(ctx, q)
		})
		require.Error(t, h.Release(t.Context()))
		require.LessOrEqual(t, requests, 10*book.MaxConflicts)
	})
}

// starts lets a newcomer acquire a worker ID and release it. It returns the error if it gets none
// within a time.
func (m *memory) starts(t *testing.T, owner string, within time.Duration, change ...func(*Options)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	o := &Options{Layout: fleet, Owner: owner, Clock: clockAt(0)}
	for _, f := range change {
		f(o)
	}
	l, err := Acquire(ctx, m, o)
	if err == nil {
		require.NoError(t, l.Release(context.Background()))
	}
	return err
}

// A clock was a year ahead once. When the watermark is lost, newcomers do not begin at the bound
// that this clock left.
func TestClockThatWasAheadStopsNobodyWhenTheWatermarkIsLost(t *testing.T) {
	for _, value := range []string{"", "?", "null", "{}"} {
		withMemory(t, func(t *testing.T, m *memory) {
			h := mustAcquire(t, m, fleet, clockAt(0))
			wrong := mustAcquire(t, m, fleet, clockAt(365*24*time.Hour), named("wrong"))
			wrong.next()
			require.NoError(t, wrong.Release(t.Context()))
			m.mark(t)
			time.Sleep(time.Hour)
			m.loses(book.WatermarkKey, value)
			_ = m.starts(t, "b", span)
			time.Sleep(protocol.Skew)
			require.NoError(t, m.starts(t, "c", span))
			m.becomes(down)
			time.Sleep(2*span + span/3)
			m.becomes()
			time.Sleep(2 * span)
			h.next()
		})
	}
}

// The first holder that heals a wiped store has a clock that is an hour ahead. The others put the
// watermark right.
func TestHolderThatIsAheadHealsAStoreForNobodyElse(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		wrong := mustAcquire(t, m, fleet, clockAt(time.Hour), named("wrong"))
		wrong.next()
		time.Sleep(400 * ms)
		h := mustAcquire(t, m, fleet, clockAt(0))
		h.next()
		time.Sleep(300 * ms)
		m.set(func() { clear(m.entries) })
		time.Sleep(span + span/3)
		require.NoError(t, wrong.Release(t.Context()))
		time.Sleep(protocol.Healing(ms) + span)
		require.NoError(t, m.starts(t, "b", span))
		m.becomes(down)
		time.Sleep(2*span + span/3)
		m.becomes()
		time.Sleep(2 * span)
		h.next()
	})
}

// The watermark alone is lost, or cannot be read. Live holders put it back within two minutes: whether
// they save floors for readers or not, if one of them has a clock that is ahead, and if one of them
// has crashed, once it counts as dead. Then they look no more, and a newcomer need not wait.
func TestLiveHoldersPutAWatermarkBackThatIsLostAlone(t *testing.T) {
	for _, value := range []string{"", "?", "{}"} {
		for _, floor := range []time.Duration{0, time.Second} {
			for name, other := range map[string]struct{ off, dead time.Duration }{
				"beside another": {}, "beside one that is ahead": {off: time.Hour},
				"beside one that has just crashed": {dead: time.Second}, "beside one that crashed long ago": {dead: time.Hour},
			} {
				inBubble(t, fmt.Sprintf("%q, FloorEvery %v, %s", value, floor, name), func(t *testing.T) {
					m := newMemory()
					change := []func(*Options){floorEvery(floor), lasting(30 * time.Second)}
					o := mustAcquire(t, m, fleet, clockAt(other.off), append(change, named("other"))...)
					time.Sleep(time.Second)
					h := mustAcquire(t, m, fleet, clockAt(0), change...)
					time.Sleep(70 * time.Second)
					mark, err := m.Read(t.Context())
					require.NoError(t, err)
					time.Sleep(70 * time.Second)
					if other.dead > 0 {
						o.cancel()
						time.Sleep(other.dead)
					}
					m.loses(book.WatermarkKey, value)
					time.Sleep(2 * time.Minute)
					is, err := book.GetWatermark(m.line())
					require.NoError(t, err)
					require.False(t, is.Lost())
					require.False(t, h.hasLost(), "it looks no more")
					begun := time.Now()
					b := mustAcquire(t, m, fleet, clockAt(0), append(change, named("b"))...)
					require.Less(t, time.Since(begun), time.Second)
					id, err := b.g.NextID()
					require.NoError(t, err)
					require.Greater(t, id, mark.ID)
				})
			}
		}
	}
}

// A lease that knows of no watermark asks the store once for each renewal, and now and then whether
// there is a watermark. With an Owner it asks for a namesake once in 16 windows.
func TestRenewalIsOneRequestIfNobodyReadsTheWatermark(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0), unnamed)
		var requests atomic.Uint64
		was := h.Stats().Renewals
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			requests.Add(1)
			return next(ctx, q)
		})
		time.Sleep(time.Minute - time.Second)
		require.Equal(t, h.Stats().Renewals-was, requests.Load())
		time.Sleep(2 * time.Hour)
		require.InDelta(t, h.Stats().Renewals-was, requests.Load(), 16)
		require.NoError(t, h.Release(t.Context()))
		h = mustAcquire(t, m, fleet, clockAt(0))
		requests.Store(0)
		time.Sleep(2 * time.Hour)
		require.InDelta(t, h.Stats().Renewals+uint64(2*time.Hour/(16*span)), requests.Load(), 16)
	})
}

// ahead is the line of a reader whose clock is an hour ahead.
type ahead struct{ book.Wire }

func (a ahead) Read() book.Reading {
	r := a.Wire.Read()
	r.Own = r.Own.Add(time.Hour)
	return r
}

// A record is lost, nobody lives, and the clock of a reader is an hour ahead for one reading.
func TestReaderThatIsAheadStopsNobodyBesideALostRecord(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0))
		h.next()
		m.mark(t)
		require.NoError(t, h.Release(t.Context()))
		m.set(func() { delete(m.entries, book.RecordKey(h.Worker())) })
		for range 200 {
			m.mark(t)
			time.Sleep(time.Second)
		}
		w := <-m.slot
		v := viewer{Line: ahead{book.LineTo(t.Context(), m)}, watch: w}
		require.NoError(t, v.open())
		_, err := v.watermark()
		require.NoError(t, err)
		m.slot <- w
		require.NoError(t, m.starts(t, "b", span))
	})
}

// A store that gives no version of an entry that it cannot read has no watermark, rather than ID 0.
func TestUnreadableWatermarkThatIsNotReplacedIsAnError(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0))
		m.mark(t)
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			if q.do == "get" && (q.key == book.WatermarkKey || q.key == book.SilenceKey) {
				return ErrBadRecord
			}
			return next(ctx, q)
		})
		_, err := Watermark(t.Context(), m)
		require.ErrorIs(t, err, ErrBadRecord)
		h.next()
	})
}

// A reader forgets an entry "silence" that cannot be read.
func TestUnreadableSilenceIsForgotten(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		dead := mustAcquire(t, m, fleet, clockAt(0))
		mustAcquire(t, m, fleet, clockAt(0), named("b"))
		m.mark(t)
		dead.cancel()
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			if q.do == "get" && q.key == book.SilenceKey {
				return ErrBadRecord
			}
			return next(ctx, q)
		})
		time.Sleep(span)
		_, err := Watermark(t.Context(), m)
		require.NoError(t, err)
	})
}

// A clock was an hour ahead. When it is right, its holder goes on with another clock sequence, and
// dies. Its earlier window does not count any more; until the change is complete it does.
func TestHolderThatChangedItsClockSequenceCountsByItsWindow(t *testing.T) {
	for _, answers := range []bool{true, false} {
		withMemory(t, func(t *testing.T, m *memory) {
			mustAcquire(t, m, both, clockAt(0), named("b"))
			h := mustAcquire(t, m, both, clockAt(time.Hour))
			h.next()
			h.c.set(0)
			if !answers {
				m.becomes(silent)
			}
			_, err := h.g.NextID()
			require.Equal(t, answers, err == nil)
			if answers {
				time.Sleep(span)
			}
			h.cancel()
			m.becomes()
			r := m.record(h.Worker())
			require.Equal(t, 1, r.ClockSeq)
			require.Equal(t, !answers, r.Ends().After(time.Now().Add(span)))
			for range 20 {
				m.mark(t)
				time.Sleep(span / 4)
			}
			mark, err := m.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, answers, time.Since(both.Decode(mark.ID).Time) < 2*span)
		})
	}
}

// A process calls Watermark every 10 s, on a store without a clock and a host that does not tell when
// it was booted. What it saw of a holder that died serves its next calls, whichever way it opens a
// directory, and its leases.
func TestSingleReadingsOfOneProcessGoOnWithWhatItHasSeen(t *testing.T) {
	defer func(old int) { book.MaxStores = old }(book.MaxStores)
	book.MaxStores = 64 // also in the simulator
	withMemory(t, func(t *testing.T, m *memory) {
		dead := mustAcquire(t, m, fleet, clockAt(0), lasting(30*time.Second))
		mustAcquire(t, m, fleet, clockAt(0), named("lives"), lasting(30*time.Second))
		time.Sleep(time.Minute)
		dead.cancel()
		lag := time.Duration(0)
		for range 30 {
			mark, err := Watermark(t.Context(), m)
			require.NoError(t, err)
			lag = max(lag, time.Since(fleet.Decode(mark.ID+1).Time))
			time.Sleep(10 * time.Second)
		}
		require.Less(t, lag, 70*time.Second) // two windows and a reader's wait
		require.Less(t, m.ago(t), 20*time.Second)
	})
	dir := t.TempDir()
	require.Same(t, book.WatchOf(File(dir)).Seen, book.WatchOf(File(dir+"/.")).Seen)
	require.NotSame(t, book.WatchOf(File(dir)).Seen, book.WatchOf(File(dir+"/x")).Seen)
	m := newMemory()
	require.Same(t, book.WatchOf(m).Seen, NewWatermarkReader(m).slotted().Seen)
	require.Same(t, book.WatchOf(m).Seen, newLease(m, Options{}).known.Seen)
	require.NotSame(t, book.WatchOf(m.asks).Seen, book.WatchOf(m.asks).Seen, "it cannot be compared")
	withMemory(t, func(t *testing.T, m *memory) {
		seen := book.WatchOf(m).Seen
		time.Sleep(protocol.Healing(ms))
		require.Same(t, seen, book.WatchOf(m).Seen)
		time.Sleep(protocol.Healing(ms) + 1)
		require.NotSame(t, seen, book.WatchOf(m).Seen, "it was not used for too long")
	})
}

// A store without a clock goes back to an older state while a holder lives, and shows a record, a lost
// one or a closed door that this process saw long ago. The process waits for the holder as if it had
// never seen them, and no ID repeats.
func TestStoreThatGoesBackShowsNothingThatWasSeenLongAgo(t *testing.T) {
	defer func(old int) { book.MaxStores = old }(book.MaxStores)
	book.MaxStores = 64 // also in the simulator
	// This process looks at m, and the holder is another one, at m.asks.
	for _, lost := range []string{"", book.RecordKey(0), book.DoorKey} {
		for _, away := range []time.Duration{time.Second, protocol.Healing(ms)} { // after it saw that nothing is lost any more
			inBubble(t, lost+" "+away.String(), func(t *testing.T) {
				m := newMemory()
				acquire := func(owner string) error {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the holder does not renew before
					defer cancel()
					_, err := Acquire(ctx, m, &Options{Layout: fleet, Owner: owner, Clock: clockAt(0), Count: 1, Window: 30 * time.Second})
					return err
				}
				looks := func() {
					_, err := Watermark(t.Context(), m)
					require.NoError(t, err)
				}
				old, begun := map[string]Entry{}, time.Now()
				if lost == book.DoorKey {
					err := acquire("waits")
					require.ErrorIs(t, err, ErrWiped)
					old = m.all()
				}
				h := mustAcquire(t, m.asks, fleet, clockAt(0), named("lives"), lasting(30*time.Second), func(o *Options) { o.Count = 1 })
				switch lost {
				case "":
					looks()
					old = m.all()
				case book.RecordKey(0):
					m.set(func() { delete(m.entries, book.RecordKey(0)) })
					begun = time.Now()
					err := acquire("waits")
					require.Error(t, err)
					old = m.all()
					time.Sleep(10 * time.Second)
				}
				looks()
				time.Sleep(protocol.Healing(ms) - time.Second - time.Since(begun))
				if away == time.Second {
					looks() // it is open, and the record is there
				}
				time.Sleep(away)
				m.set(func() { m.entries = old })
				err := acquire("next")
				require.Error(t, err)
				h.next()
			})
		}
	}
}

// all returns a copy of all entries.
func (m *memory) all() (all map[string]Entry) {
	m.set(func() { all = maps.Clone(m.entries) })
	return all
}

// Three holders die one after the other, while one process reads all the time. Each is named from
// the moment it keeps the watermark back, however far behind the one before has left it.
func TestEachOfSeveralThatDieIsNamed(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		var all []*holder
		for i := range 4 {
			all = append(all, mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint(i)), floorEvery(time.Second), lasting(30*time.Second)))
		}
		for range 120 {
			m.mark(t)
			time.Sleep(500 * ms)
		}
		for i := range 140 {
			if i%30 == 0 && i < 90 {
				all[i/30].cancel()
			}
			mark, err := m.Read(t.Context())
			require.NoError(t, err)
			lag := time.Since(fleet.Decode(mark.ID + 1).Time)
			require.Equal(t, lag > 4*time.Second+2*ms, mark.HeldBy != nil, "after %v: it lags by %v", time.Duration(i)*500*ms, lag)
			time.Sleep(500 * ms)
		}
	})
}

// slotted returns the watch of a reader that nobody uses.
func (r *WatermarkReader) slotted() *book.Watch {
	w := <-r.slot
	r.slot <- w
	return w
}

// However many holders died, processes that read once each get a watermark that rises. What one of
// them knows of the dead, the next one goes on with.
func TestManyDeadHoldersDoNotFreezeSingleReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		machine.BootClock = func() (string, time.Duration, time.Duration) { return "h", time.Hour + time.Since(begun), 0 }
		m := newMemory()
		lives := mustAcquire(t, m, fleet, clockAt(0), named("lives"))
		defer func() {
			lives.cancel()
			synctest.Wait()
			machine.BootClock = noBoot
		}()
		for i := range 150 { // the entry "silence" has room for 128
			mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint("dead ", i))).cancel()
			time.Sleep(ms)
		}
		var mark Mark
		for range 4 * int(span/time.Second) {
			time.Sleep(time.Second)
			var err error
			mark, err = Watermark(t.Context(), m.asks) // a process that has not read before
			require.NoError(t, err)
		}
		require.Less(t, time.Since(fleet.Decode(mark.ID).Time), 2*span, mark.Why)
		m.becomes(func(ctx context.Context, q *query, next asks) error {
			require.False(t, q.do == "put" && q.key == book.SilenceKey, "who is known to be dead is not saved again")
			return next(ctx, q)
		})
		_, err := Watermark(t.Context(), m.asks) // a process that has not read before
		require.NoError(t, err)
	})
}

// A holder's clock goes back, and its first change of the clock sequence fails after the save. Then
// the watermark alone is lost. The second change puts it back, and not below what was published.
func TestSecondChangeOfTheClockSequencePutsTheWatermarkBack(t *testing.T) {
	for name, fails := range map[string]func(*query) bool{
		"the save has no answer":       (*query).saves,
		"the watermark cannot be read": func(q *query) bool { return q.do == "get" && q.key == book.WatermarkKey },
	} {
		inBubble(t, name, func(t *testing.T) {
			m := newMemory()
			a, b := mustAcquire(t, m, both, clockAt(0), named("a")), mustAcquire(t, m, both, clockAt(0), named("b"))
			for range 100 {
				a.next()
				b.next()
				time.Sleep(50 * ms)
				m.mark(t)
			}
			mark, err := m.Read(t.Context())
			require.NoError(t, err)
			a.c.set(-2 * time.Second)
			var failed atomic.Bool
			m.becomes(func(ctx context.Context, q *query, next asks) error {
				err := next(ctx, q)
				if !fails(q) || failed.Swap(true) {
					return err
				}
				return errDown
			})
			_, err = a.g.NextID()
			require.ErrorIs(t, err, errDown)
			m.set(func() { delete(m.entries, book.WatermarkKey) })
			requireAbove(t, a, mark)
		})
	}
}

// A holder was cut off for so long that the watermark passed it. Then the watermark is lost, and the
// holder's clock goes back. It changes its clock sequence before it has renewed.
func TestChangeOfTheClockSequenceAfterAnAbsencePutsTheWatermarkBack(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		var away atomic.Bool
		mine := asks(func(ctx context.Context, q *query) error {
			if away.Load() {
				return errDown
			}
			return m.asks(ctx, q)
		})
		a, b := mustAcquire(t, mine, both, clockAt(0), named("a")), mustAcquire(t, m, both, clockAt(0), named("b"))
		m.mark(t)
		time.Sleep(4 * time.Second)
		last := a.next().Time
		away.Store(true)
		for range 40 {
			time.Sleep(250 * ms)
			m.mark(t)
		}
		b.next()
		mark, err := m.Read(t.Context())
		require.NoError(t, err)
		require.True(t, both.Decode(mark.ID).Time.After(last))
		a.c.set(time.Until(last) - 500*ms)
		m.set(func() { delete(m.entries, book.WatermarkKey) })
		away.Store(false)
		requireAbove(t, a, mark)
	})
}

// requireAbove requires IDs in the next half minute, above the mark.
func requireAbove(t *testing.T, h *holder, mark Mark) {
	t.Helper()
	issued := 0
	for range 600 {
		if id, err := h.g.NextID(); err == nil {
			issued++
			require.Greater(t, id, mark.ID)
		}
		time.Sleep(50 * ms)
	}
	require.NotZero(t, issued)
}

// The generator's clock lags behind the lease's by less than clockLag. The first IDs of a newcomer
// are above a watermark that was read before, at every instant since the newcomer's save.
func TestNewcomerWhoseGeneratorLagsIssuesNothingBelowTheWatermark(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		mustAcquire(t, m, fleet, clockAt(time.Second), named("ahead"))
		for i := range 20 {
			l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Owner: fmt.Sprint(i), Clock: clockAt(0)})
			require.NoError(t, err)
			mark, err := m.Read(t.Context())
			require.NoError(t, err)
			lags := clockAt(-time.Duration(i) * ms)
			g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: lags, OnBackward: snowflake.FailPolicy()})
			require.NoError(t, err)
			id, err := g.NextID()
			require.NoError(t, err, "it lags by %d ms", i)
			require.Greater(t, id, mark.ID)
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(span)
		}
	})
}

// Holders notice a reader within a third of a window. Until then the watermark lags by that time, and
// nobody is to blame.
func TestReaderThatBeginsBlamesNobody(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		for i := range 3 {
			mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint(i)), floorEvery(time.Second), lasting(30*time.Second))
		}
		for range 3 {
			time.Sleep(10*time.Minute + 9*time.Second)
			for range 60 {
				mark, err := m.Read(t.Context())
				require.NoError(t, err)
				require.Nil(t, mark.HeldBy, mark.Why)
				time.Sleep(time.Second)
			}
		}
	})
}

func lasting(window time.Duration) func(*Options) { return func(o *Options) { o.Window = window } }
