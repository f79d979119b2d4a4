package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// mark returns the watermark's time.
func (m *memory) mark(t *testing.T) time.Time {
	t.Helper()
	id, err := Watermark(t.Context(), m)
	if !errors.As(err, new(*WatermarkError)) {
		require.NoError(t, err)
	}
	return fleet.Decode(id + 1).Time
}

// ago returns how far the watermark is behind.
func (m *memory) ago(t *testing.T) time.Duration { return time.Since(m.mark(t)) }

// withEngine is whether the store has a clock.
func withEngine(t *testing.T, f func(t *testing.T, m *memory)) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("engine's clock: ", own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.ownClock = own
				f(t, m)
			})
		})
	}
}

func TestWatermarkFollowsHoldersThatIssueAndIdle(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		a, b := mustAcquire(t, m, fleet, clockAt(0), named("a")), mustAcquire(t, m, fleet, clockAt(-500*ms), named("b"))
		last := snowflake.ID(0)
		for range 40 {
			time.Sleep(span / 10)
			if rand.N(2) == 0 {
				a.next()
			}
			id, err := Watermark(t.Context(), m)
			require.NoError(t, err)
			require.GreaterOrEqual(t, id, last)
			last = id
			issued, err := b.g.NextID()
			require.NoError(t, err)
			require.Greater(t, issued, id)
		}
		assert.Less(t, m.ago(t), 2*time.Second)
	})
}

// The slow clock's next ID is above a watermark, also if the clock is set back after a renewal.
func TestFloorHoldsWhateverTheClockDoes(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0))
		time.Sleep(span)
		at := m.mark(t)
		h.c.step(-span)
		_, err := h.g.NextID()
		require.ErrorIs(t, err, snowflake.ErrClockBackward)
		h.c.step(span)
		assert.False(t, h.next().Time.Before(at))
	})
}

// A renewal that is not answered may have been saved, so that what it says holds at once.
func TestFloorHoldsIfTheAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0))
		m.set(func() { m.loseAnswer = true })
		time.Sleep(span / 2)
		at := m.mark(t)
		h.c.step(-span / 2)
		_, err := h.g.NextID()
		require.ErrorIs(t, err, snowflake.ErrClockBackward)
		h.c.step(span / 2)
		assert.False(t, h.next().Time.Before(at))
	})
}

func TestHoldKeepsTheWatermarkBack(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0))
		time.Sleep(span)
		first, second := h.Hold(), h.Hold()
		id, err := h.g.NextID()
		require.NoError(t, err)
		first()
		first()
		time.Sleep(3 * span)
		seen, err := Watermark(t.Context(), m)
		assert.Less(t, seen, id)
		held := new(WatermarkError)
		require.ErrorAs(t, err, &held)
		assert.Equal(t, h.Worker(), held.Holder.Worker)
		assert.Equal(t, held.At, fleet.Decode(seen+1).Time)
		assert.InDelta(t, 3*span, held.Behind, float64(span/2))
		assert.ErrorContains(t, err, "open Hold")
		second()
		time.Sleep(span / 2)
		seen, err = Watermark(t.Context(), m)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, seen, id)
	})
}

// If a Hold is open when the clock sequence changes, its IDs may be earlier than when it began.
func TestHoldGoesBackWithTheClockSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, seqs, clockAt(0))
		time.Sleep(span)
		h.next()
		done := h.Hold()
		h.c.step(-span / 2)
		id, err := h.g.NextID()
		require.NoError(t, err)
		for range 8 {
			time.Sleep(span / 4)
			seen, _ := Watermark(t.Context(), m)
			require.Less(t, seen, id)
		}
		done()
	})
}

// A clock sequence is changed to above the watermark, or not at all.
func TestClockSequenceBeginsAboveTheWatermark(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, seqs, clockAt(0))
		time.Sleep(span)
		h.next()
		id, err := Watermark(t.Context(), m)
		require.NoError(t, err)
		h.c.step(-2 * span)
		for range 5 {
			h.refused(snowflake.ErrClockBackward)
		}
		h.c.set(-time.Until(seqs.Decode(id + 1).Time).Abs())
		next, err := h.g.NextID()
		require.NoError(t, err)
		assert.Greater(t, next, id)
		again, _ := Watermark(t.Context(), m)
		assert.GreaterOrEqual(t, again, id)
	})
}

// Whoever comes while the watermark rises begins above it.
func TestNewcomerBeginsAboveTheWatermark(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		mustAcquire(t, m, fleet, clockAt(0), named("a"))
		time.Sleep(span)
		var at time.Time
		s := &beforeSaving{memory: m, before: func() { time.Sleep(ms); at = m.mark(t) }}
		b := mustAcquire(t, s, fleet, clockAt(-span/2), named("b"))
		assert.False(t, b.Grant().From.Before(at))
		assert.False(t, b.next().Time.Before(at))
	})
}

// A call that waits for its tick gets its ID, however late.
func TestWaitingCallKeepsTheWatermarkBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustAcquire(t, newMemory(), fleet, clockAt(0))
		time.Sleep(span)
		ids := make(chan snowflake.ID, 3*16)
		for range 3 * 16 { // of three ticks
			go func() {
				id, err := h.g.NextID()
				assert.NoError(t, err)
				ids <- id
			}()
		}
		synctest.Wait()
		for len(ids) > 0 {
			<-ids
		}
		at, ok := h.Lease.next()
		require.True(t, ok)
		for range 2 * 16 {
			assert.False(t, fleet.Decode(<-ids).Time.Before(at))
		}
	})
}

func TestDeadHolderStopsKeepingTheWatermarkBack(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		dead := mustAcquire(t, m, fleet, clockAt(0), named("dead"))
		mustAcquire(t, m, fleet, clockAt(0), named("b"))
		time.Sleep(span)
		stopRenewing(dead.Lease)
		last := m.mark(t)
		time.Sleep(span / 2)
		assert.Less(t, m.mark(t).Sub(last), span/2, "it is live")
		for range 12 {
			time.Sleep(span / 4)
			m.mark(t)
		}
		assert.Less(t, m.ago(t), span)
	})
}

// A store that lost entries has a watermark again when nobody can stamp below it.
func TestWatermarkOfAStoreThatLostEntries(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(0), named("a"))
		time.Sleep(span)
		at := m.mark(t)
		m.set(func() { m.drop(h.Worker()) })
		_, err := Watermark(t.Context(), m)
		require.ErrorAs(t, err, new(*WatermarkError), "it is not known what the holder stamps")
		assert.False(t, m.mark(t).Before(at))
		assert.Less(t, m.mark(t).Sub(at), ms)
		time.Sleep(span)
		assert.Less(t, m.ago(t), span, "the holder has put its record back")
		m.wipe()
		_, err = Watermark(t.Context(), m)
		require.ErrorIs(t, err, ErrWiped)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		l, err := Acquire(ctx, m, &Options{Layout: fleet, Owner: "b", Clock: clockAt(0)})
		require.NoError(t, err)
		defer l.Release(context.Background())
		assert.True(t, m.mark(t).After(at))
	})
}

// If the watermark alone is lost, a newcomer begins a minute ahead, above all that was published.
func TestNewcomerAfterTheWatermarkWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		require.NoError(t, mustAcquire(t, m, fleet, clockAt(0), named("a")).Release(t.Context()))
		at := m.mark(t)
		m.set(func() { delete(m.entries, watermarkKey) })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		l, err := Acquire(ctx, m, &Options{Layout: fleet, Owner: "b", Clock: clockAt(-span / 2)})
		if err == nil {
			defer l.Release(context.Background())
			assert.False(t, l.Grant().From.Before(at))
		} else {
			require.ErrorIs(t, err, snowflake.ErrClockBackward)
		}
	})
}

func TestWatermarkUnderRewindPolicyNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Owner: "r", NewStore: true})
		require.NoError(t, err)
		defer l.Release(context.Background())
		_, err = snowflake.NewLeased(l, &snowflake.Options{OnBackward: snowflake.RewindPolicy(), RewindTicks: 100})
		require.NoError(t, err)
		from := l.Grant().From
		time.Sleep(4 * span)
		_, err = Watermark(t.Context(), m)
		held := new(WatermarkError)
		require.ErrorAs(t, err, &held)
		assert.Equal(t, from, held.At)
		assert.ErrorContains(t, err, "RewindTicks")
	})
}

func floorEvery(d time.Duration) func(*Options) { return func(o *Options) { o.FloorEvery = d } }

// With 8 holders whose clocks differ by up to a second and a reader every 100 ms, the watermark lags by the
// slowest clock, the oldest Hold, FloorEvery and the reader's wait.
func TestWatermarkLagsByFloorEvery(t *testing.T) {
	const every = 100 * ms
	worst := func(t *testing.T, m *memory, hold time.Duration, change ...func(*Options)) (lag time.Duration) {
		var transactions sync.WaitGroup
		defer transactions.Wait()
		for n := range 8 {
			off := time.Duration(n)*time.Second/7 - time.Second/2
			h := mustAcquire(t, m, fleet, clockAt(off), append(change, named(fmt.Sprint(n)))...)
			time.Sleep(rand.N(span / 3))
			transactions.Go(func() {
				for begun := time.Now(); hold > 0 && time.Since(begun) < 30*time.Second; {
					done := h.Hold()
					time.Sleep(rand.N(hold))
					done()
				}
			})
		}
		for n := range 300 {
			if ago := m.ago(t); n > 30 {
				lag = max(lag, ago)
			}
			time.Sleep(every)
		}
		return lag
	}
	for _, hold := range []time.Duration{0, time.Second} {
		withEngine(t, func(t *testing.T, m *memory) {
			assert.Less(t, worst(t, m, hold, floorEvery(every)), time.Second/2+hold+2*every+20*ms)
		})
		withEngine(t, func(t *testing.T, m *memory) {
			assert.Greater(t, worst(t, m, hold), time.Second, "without FloorEvery")
		})
	}
}

// Renewals are more frequent within a window after a reading, and no more frequent else: if nobody reads, if the
// watermark's entry cannot be read, and if the store is away.
func TestRenewalsAreFrequentOnlyWhileTheWatermarkIsRead(t *testing.T) {
	for name, change := range map[string]func(*Options){"store": func(*Options) {}, "copy": func(o *Options) { o.Reuse, o.LocalCopy = ReuseKeep, t.TempDir() }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
						_, _ = Watermark(t.Context(), m)
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
				m.set(func() { m.hangs = true })
				time.Sleep(2 * span)
				window("the entry cannot be read", 2, 4)
				m.set(func() { m.hangs = false })
				read()
				m.set(func() { m.down = true })
				check = most(0, 20)
				time.Sleep(span / 2)
				check("the store is away")
				m.set(func() { m.down = false })
				time.Sleep(2 * span)
				window("the store is back", 3, 4)
				assert.Less(t, time.Since(begun), time.Minute)
			})
		})
	}
}

// Readers and holders that come and go, at random.
func TestWatermarkIsBelowAllLaterIDs(t *testing.T) {
	for range 20 {
		withEngine(t, func(t *testing.T, m *memory) {
			hs := make([]*holder, 4)
			last := snowflake.ID(0)
			for range 200 {
				i := rand.N(len(hs))
				h := hs[i]
				switch {
				case h == nil:
					hs[i], _ = acquire(t, m, fleet, clockAt(rand.N(time.Second)-time.Second/2), named(fmt.Sprint(i)))
				case rand.N(20) == 0:
					require.NoError(t, h.Release(t.Context()))
					hs[i] = nil
				case rand.N(3) == 0:
					seen, err := Watermark(t.Context(), m)
					require.NoError(t, err)
					require.GreaterOrEqual(t, seen, last)
					last = seen
				default:
					if rand.N(10) == 0 {
						h.c.step(rand.N(200*ms) - 100*ms)
					}
					if id, err := h.g.NextID(); err == nil {
						require.Greater(t, id, last)
					}
				}
				time.Sleep(rand.N(span / 10))
			}
		})
	}
}

// A machine stood still, and only the engine's clock knows. The renewals after that are saved, but their answers are
// lost. The holder looks at the watermark all the same.
func TestHolderThatCountedAsDeadLooksAlsoIfAnswersAreLost(t *testing.T) {
	for n := range 4 {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.ownClock = true
			h := mustAcquire(t, m, fleet, clockAt(0))
			time.Sleep(span)
			h.next()
			m.set(func() { m.offset = 3 * span })
			seen, err := Watermark(t.Context(), m)
			require.NoError(t, err)
			m.set(func() { m.failSaves = n })
			for was := h.Stats().Renewals; h.Stats().Renewals == was; {
				time.Sleep(ms)
			}
			if id, err := h.g.NextID(); err == nil {
				assert.Greater(t, id, seen, "%d answers were lost", n)
			}
		})
	}
}

// pausedReader is a store whose process is stopped each time that it has listed the records, and another reader of the
// process has seen them.
type pausedReader struct {
	*memory
	t *testing.T
}

func (s pausedReader) List(ctx context.Context, prefix string) ([]Entry, error) {
	found, err := s.memory.List(ctx, prefix)
	if prefix == recordPrefix {
		s.mark(s.t)
		time.Sleep(span + span/4)
	}
	return found, err
}

// A reader that was stopped does not take a holder for dead by what it had listed before.
func TestReaderThatWasStoppedTakesNobodyForDead(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, fleet, clockAt(-9*span))
		m.mark(t)
		id, _ := Watermark(t.Context(), pausedReader{m, t})
		next, err := h.g.NextID()
		require.NoError(t, err)
		require.Greater(t, next, id)
	})
}

// A holder is not blamed for what an earlier holder of its worker ID may still stamp.
func TestWatermarkErrorTellsAnEarlierHolderFromThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r := Record{State: Held, Window: span, Least: now, Prior: prior{Least: now.Add(-9 * span), To: now.Add(9 * span)}}
		low, by := lowest([]Record{r}, now, func(Record) time.Duration { return 0 })
		require.Equal(t, r.Prior.Least, low)
		v := viewer{mark: mark{Published: low}, asked: now}
		assert.Contains(t, v.why(*by), "an earlier one")
		v.mark.Published = r.Prior.To
		assert.NotContains(t, v.why(*by), "an earlier one")
	})
}
