package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// take gives a worker ID to another owner, whose window begins at the bound.
func (m *memory) take(worker int, owner string) {
	m.set(func() {
		m.change(worker, func(r *Record) {
			before := *r
			r.Token, r.Owner, r.State = owner+"'s", owner, Held
			r.From = r.Bound()
			*r, _ = r.withBound(r.ClockSeq, r.Bound().Add(span)).succeed(before, time.Time{})
		})
		e := m.entries[recordKey(worker)]
		e.Time = m.now()
		m.entries[e.Key] = e
	})
}

// touch renews a record.
func (m *memory) touch(worker int) { m.set(func() { m.change(worker, func(*Record) {}) }) }

// give makes a worker ID free.
func (m *memory) give(worker int) {
	m.set(func() { m.change(worker, func(r *Record) { r.State = Free }) })
}

// more issues IDs for d. Each call must succeed, and each ID must be greater than the last.
func (h *holder) more(d time.Duration, last snowflake.ID) snowflake.ID {
	h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(7 * ms) {
		id, err := h.g.NextID()
		require.NoError(h.t, err)
		require.Greater(h.t, id, last)
		last = id
	}
	return last
}

func TestLostWorkerIDIsReplaced(t *testing.T) {
	for name, policy := range map[string]snowflake.BackwardPolicy{"fail": snowflake.FailPolicy(), "wait": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				c := clockAt(0)
				l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Clock: c, Owner: "a"})
				require.NoError(t, err)
				g, err := snowflake.NewLeased(l, &snowflake.Options{OnBackward: policy})
				require.NoError(t, err)
				h := &holder{l, t, g, c, nil}
				last := h.more(time.Second, 0)
				for replacements := range 3 {
					was := l.Worker()
					bound := m.record(was).Bound()
					m.take(was, "b")
					last = h.more(2*span, last) // calls do not notice the loss
					assert.NotEqual(t, was, l.Worker())
					assert.Equal(t, l.Worker(), g.Worker())
					assert.Equal(t, l.Worker(), g.Decode(last).Worker)
					assert.EqualValues(t, replacements+1, l.Stats().Replacements)
					assert.Equal(t, "b", m.record(was).Owner)
					assert.Equal(t, bound, m.record(was).From)
				}
				assert.NoError(t, l.Stats().LastError)
				require.NoError(t, l.Err())
				require.NoError(t, l.Release(t.Context()))
				assert.ErrorIs(t, l.Err(), ErrReleased)
			})
		})
	}
}

// Until the replacement is granted, IDs of the old window may be issued. Afterwards the old worker ID is not
// used again.
func TestOldWindowIsUsedUntilTheReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0))
		h.next()
		m.take(h.Worker(), "b")
		m.set(func() {
			m.refuses = map[int]bool{}
			for worker := range 1 << fleet.WorkerBits {
				m.refuses[worker] = worker != h.Worker()
			}
		})
		was := h.Worker()
		time.Sleep(span / 2)
		require.ErrorIs(t, h.Stats().LastError, ErrLost)
		require.NoError(t, h.Err())
		require.Equal(t, was, h.next().Worker, "its window goes on")
		time.Sleep(span)
		_, err := h.g.NextID()
		require.ErrorIs(t, err, snowflake.ErrLeaseExpired)
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, errDown, "and why it was not replaced")
		m.set(func() { m.refuses = nil })
		time.Sleep(4 * span)
		h.next()
		require.NoError(t, h.Stats().LastError)
		require.EqualValues(t, 1, h.Stats().Replacements)
	})
}

// If the replacement's window begins in the future, it is granted when the clock reaches the beginning.
func TestReplacementIsGrantedWhenTheClockReachesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Count = 1 })
		h.next()
		m.take(h.Worker(), "b")
		m.give(h.Worker())
		from := m.record(0).Bound()
		for range 300 {
			time.Sleep(span / 100)
			require.False(t, h.Grant().From.After(h.c.Now()))
		}
		assert.EqualValues(t, 1, h.Stats().Replacements)
		assert.Equal(t, from, h.Grant().From)
		h.next()
	})
}

// Whatever fault the store has, IDs are issued again when the fault is over, also if the worker ID is to be
// replaced meanwhile.
func TestHolderContinuesWhenTheFaultIsOver(t *testing.T) {
	for name, fault := range map[string]func(m *memory, on bool){
		"down":           func(m *memory, on bool) { m.down = on },
		"hanging":        func(m *memory, on bool) { m.hangs = on },
		"bad":            func(m *memory, on bool) { m.bad = on },
		"answers lost":   func(m *memory, on bool) { m.loseAnswer = on },
		"saves hanging":  func(m *memory, on bool) { m.slow = map[bool]time.Duration{true: time.Hour}[on] },
		"saves slow":     func(m *memory, on bool) { m.slow = map[bool]time.Duration{true: span / 2}[on] },
		"saves too late": func(m *memory, on bool) { m.delay = map[bool]time.Duration{true: span}[on] },
	} {
		for _, lost := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				h := mustAcquire(t, m, fleet, clockAt(0))
				h.next()
				if lost {
					m.take(h.Worker(), "b")
				}
				time.Sleep(ms)
				m.set(func() { fault(m, true) })
				time.Sleep(time.Hour)
				m.set(func() { fault(m, false) })
				time.Sleep(4 * span)
				h.next()
				require.NoError(t, h.Err())
				assert.Equal(t, lost, h.Stats().Replacements > 0, name)
				time.Sleep(time.Minute)
				h.next()
			})
		}
	}
}

// If all worker IDs are held for an hour, the lease asks the store at most twice in a window.
func TestReplacementWaitsForAFreeWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.take(0, "b")
		end := time.Now().Add(time.Hour)
		for time.Now().Before(end) {
			m.touch(0)
			time.Sleep(span / 3)
		}
		h.refused(ErrExhausted)
		m.set(func() { assert.Less(t, m.reads, int(20*time.Hour/span)) })
		m.give(0)
		time.Sleep(2 * span)
		h.next()
		assert.EqualValues(t, 1, h.Stats().Replacements)
	})
}

func TestOwnerWaitsForItsKeptWorkerIDAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0), reuse(ReuseKeep))
		h.next()
		m.take(h.Worker(), "a") // the same owner was started twice
		for range 600 {
			m.touch(h.Worker())
			time.Sleep(span / 3)
			require.Equal(t, 1, m.count(), "an owner keeps one")
		}
		h.refused(ErrLost)
		m.give(h.Worker())
		time.Sleep(3 * span)
		assert.Contains(t, m.records(), h.next().Worker)
	})
}

// If a record was removed, only the lease knows which times it stamped.
func TestReplacementRemembersItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, seqs, c)
		h.next()
		for range 3 {
			c.step(-time.Minute)
			h.next() // under another clock sequence
		}
		bounds := m.record(0).Bounds
		require.Len(t, bounds, 4)
		m.set(func() { m.drop(0) })
		time.Sleep(2 * span)
		for seq, bound := range bounds {
			assert.False(t, m.record(0).Bounds[seq].Before(bound))
		}
		h.next()
		c.step(-time.Minute)
		_, err := h.g.NextID()
		assert.ErrorIs(t, err, snowflake.ErrClockBackward)
	})
}

func TestReleaseEndsAReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slow := range []time.Duration{0, span / 10} {
			m := newMemory()
			h := mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Count = 2 })
			lost := h.Worker()
			h.next()
			m.take(h.Worker(), "b")
			m.set(func() { m.slow, m.refuses = slow, map[int]bool{1 - lost: slow == 0} })
			h.ask()                   // it finds out that the worker ID is lost
			time.Sleep(3*slow/2 + ms) // it tries to save, or has failed
			require.ErrorIs(t, h.trouble(), ErrLost)
			require.NoError(t, h.Release(t.Context()))
			h.refused(ErrReleased)
			m.set(func() { m.slow, m.refuses = 0, nil })
			time.Sleep(span)
			saves := m.saved()
			time.Sleep(time.Hour)
			assert.Equal(t, saves, m.saved(), "it does not go on")
			assert.NotEqual(t, Held, m.record(1-lost).State)
			assert.Equal(t, "b", m.record(lost).Owner)
		}
	})
}

// The generator's last ID may have the worker ID that was lost.
func TestReleaseAfterAReplacementRecordsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, issue := range []bool{false, true} {
			m := newMemory()
			h := mustAcquire(t, m, fleet, clockAt(0))
			last, lost := h.next(), h.Worker()
			m.take(h.Worker(), "b")
			time.Sleep(span/3 - span/24)
			for h.Worker() == lost {
				last = h.next()
				time.Sleep(ms)
			}
			from := h.Grant().From
			if issue {
				last = h.next()
			}
			require.NoError(t, h.Release(t.Context()))
			r := m.record(h.Worker())
			assert.Equal(t, Free, r.State)
			assert.False(t, r.Bound().Before(from) && issue)
			assert.Equal(t, last.Time.Add(ms), r.Bound())
			assert.Equal(t, "b", m.record(lost).Owner)
		}
	})
}

func TestAcquireTriesAgainIfItLosesItsWorkerID(t *testing.T) {
	for _, onLoss := range []OnLoss{Replace, Stop} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			crash(t, m, plain, clockAt(0))
			time.Sleep(span)
			m.set(func() { m.change(0, func(r *Record) { *r = r.withBound(0, time.Now().Add(2*span)) }) })
			time.AfterFunc(4*span/3, func() { m.take(0, "b") }) // while Acquire waits for the bound
			time.AfterFunc(5*span/3, func() {
				m.set(func() {
					m.change(0, func(r *Record) { *r = r.withBound(0, time.Now()); r.State = Free })
				})
			})
			h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.OnLoss = onLoss })
			assert.Equal(t, "a", m.record(0).Owner)
			h.next()
		})
	}
}

// If Acquire fails after it took a worker ID, the worker ID is free again, with its old bound.
func TestCancelledAcquireReleasesItsWorkerID(t *testing.T) {
	before := func(t *testing.T, m *memory) Record {
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		require.NoError(t, h.Release(t.Context()))
		return m.record(0)
	}
	t.Run("while it waits for the window", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			was := before(t, m)
			ctx, cancel := context.WithTimeout(t.Context(), span/2)
			defer cancel()
			_, err := Acquire(ctx, m, &Options{Layout: plain, Clock: clockAt(-2 * span / 3)})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			is := m.record(0)
			assert.Equal(t, Free, is.State)
			assert.Greater(t, is.Saves, was.Saves+1)
			assert.Equal(t, was.Bound(), is.Bound())
		})
	})
	t.Run("while the answer is on its way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			was := before(t, m)
			ctx, cancel := context.WithCancel(t.Context())
			lost := &losing{memory: m, after: func() { cancel() }}
			_, err := Acquire(ctx, lost, &Options{Layout: plain, Clock: clockAt(0)})
			require.ErrorIs(t, err, context.Canceled)
			is := m.record(0)
			assert.Equal(t, Free, is.State)
			assert.Equal(t, was.Saves+2, is.Saves)
			assert.Equal(t, was.Bound(), is.Bound())
		})
	})
	t.Run("while the store is slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.slow = span / 4
			ctx, cancel := context.WithTimeout(t.Context(), span/8)
			defer cancel()
			begun := time.Now()
			_, err := Acquire(ctx, m, &Options{Layout: plain, Clock: clockAt(0)})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.LessOrEqual(t, time.Since(begun), span/8+farewell)
			time.Sleep(span)
		})
	})
}

// losing makes a save and calls after, so that the caller can give up before the answer comes.
type losing struct {
	*memory
	after func()
	once  sync.Once
}

func (l *losing) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	saved, err := l.memory.Put(ctx, key, old, value)
	if _, ok := workerOf(recordPrefix, key); ok {
		l.once.Do(func() {
			l.after()
			err = ctx.Err()
		})
	}
	return saved, err
}

// After a failed save, the next renewal takes one more round trip. Later renewals take one again.
func TestRenewalTakesOneRoundTripAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		time.Sleep(span)
		acquired := m.reads
		m.set(func() { m.failSaves = 1 })
		time.Sleep(span)
		require.EqualValues(t, 1, h.Stats().Failures)
		assert.Equal(t, acquired+1, m.reads, "one to find out")
		reads := m.reads
		before := h.Stats().Renewals
		time.Sleep(10 * span)
		require.Greater(t, h.Stats().Renewals, before+20)
		m.set(func() { assert.Equal(t, reads, m.reads) })
	})
}

// If the window ends within a tick, the last ID may be in that tick.
func TestReleaseRecordsAnIDInTheWindowsLastTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(ms/2))
		m.set(func() { m.down = true })
		end := h.Grant().To
		require.NotEqual(t, end, end.Truncate(ms))
		time.Sleep(time.Until(end.Add(-ms / 2)))
		last := h.next()
		require.True(t, last.Time.Add(ms).After(end))
		m.set(func() { m.down = false })
		require.NoError(t, h.Release(t.Context()))
		assert.Equal(t, last.Time.Add(ms), m.record(0).Bound())
	})
}

// A holding ends when the worker ID or the clock sequence changes, but not at a renewal.
func TestHoldingEndsWhenWorkerIDOrClockSequenceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		a := mustAcquire(t, m, seqs, c)
		first := a.Grant()
		assert.Equal(t, c.Now().Add(-span).UTC(), first.From, "nobody has stamped what was before")
		a.next()
		time.Sleep(10 * span)
		a.next()
		assert.Empty(t, m.ended(0))
		end := a.Grant().To
		c.step(-time.Hour)
		a.next()
		was := m.record(0)
		assert.Equal(t, []Holding{{
			Worker: 0, ClockSeq: 0, From: first.From, To: end, Token: was.Token, Owner: "a", Host: was.Host, PID: was.PID,
		}}, m.ended(0))
		assert.Equal(t, a.Grant().From, was.From)
		assert.Zero(t, was.Forgotten)

		stopRenewing(a.Lease)
		was = m.record(0)
		time.Sleep(2 * span)
		b := mustAcquire(t, m, seqs, c, named("b"), func(o *Options) { o.History = time.Minute })
		assert.Equal(t, []Holding{was.holding()}, m.ended(0)[1:])
		assert.Equal(t, b.Grant().From, m.record(0).From)
		b.next()
		require.NoError(t, b.Release(t.Context()))
		time.Sleep(2 * time.Minute)
		mustAcquire(t, m, seqs, c, named("b"), func(o *Options) { o.History = time.Minute })
		require.NotEmpty(t, m.ended(0))
		for _, h := range m.ended(0) {
			assert.False(t, h.To.Before(m.record(0).Forgotten))
		}
	})
}

// If a program ends with Release(context.Background()), it does end.
func TestReleaseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		m.set(func() { m.slow = time.Hour })
		begun := time.Now()
		err := h.Release(context.Background())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "the store did not answer in time")
		assert.Equal(t, span, time.Since(begun))
	})
}

// The clock sequence can be changed when the new worker ID is granted, but not while the lease waits for
// it.
func TestClockSequenceChangesAfterAReplacementButNotDuring(t *testing.T) {
	layout := seqs
	layout.WorkerBits = 4
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, layout, clockAt(0))
		h.next()
		m.take(h.Worker(), "b")
		m.set(func() {
			m.refuses = map[int]bool{}
			for worker := range 16 {
				m.refuses[worker] = worker != h.Worker()
			}
		})
		h.ask()
		time.Sleep(ms)
		g := h.Grant()
		require.ErrorIs(t, h.bump(t.Context(), g, h.c.Now().Add(-time.Hour)), ErrLost)
		require.False(t, h.canBump(h.c.Now()))
		h.c.step(-time.Hour)
		h.refused(snowflake.ErrClockBackward)
		m.set(func() { m.refuses = nil })
		h.c.step(time.Hour)
		time.Sleep(span)
		was := h.next()
		assert.NotEqual(t, g.Worker, was.Worker)
		h.c.step(-time.Hour)
		is := h.next()
		assert.Equal(t, was.Worker, is.Worker)
		assert.NotEqual(t, was.ClockSeq, is.ClockSeq)
		require.NoError(t, h.bump(t.Context(), g, h.c.Now()), "it is no longer the grant")
	})
}

// If the generator's clock is a little behind the lease's clock, a replacement works too.
func TestReplacementWorksIfGeneratorsClockIsALittleBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Clock: clockAt(0), NewStore: true})
		require.NoError(t, err)
		defer l.Release(context.Background())
		c := clockAt(-100 * ms)
		g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: c, OnBackward: snowflake.FailPolicy()})
		require.NoError(t, err)
		h := &holder{l, t, g, c, map[snowflake.ID]bool{}}
		lost := h.next().Worker
		m.take(h.Worker(), "b")
		time.Sleep(2 * span)
		assert.NotEqual(t, lost, h.next().Worker)
	})
}

// If the answer to a change of the clock sequence is lost, the old holding is in the history but has not
// ended. Then the later record counts, not the history.
func TestRecordCountsMoreThanHistoryAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := mustAcquire(t, m, seqs, clockAt(0))
		m.set(func() { m.failSaves = 1 })
		require.Error(t, a.bump(t.Context(), a.Grant(), a.c.Now()))
		time.Sleep(span / 3) // a renewal returns to the old clock sequence
		require.Equal(t, 0, m.record(0).ClockSeq)
		require.NoError(t, a.Release(t.Context()))
		id, err := seqs.Encode(snowflake.Parts{Time: time.Now()})
		require.NoError(t, err)
		_, err = Whois(t.Context(), m, id)
		assert.ErrorIs(t, err, ErrNeverIssued, "nothing was stamped")

		b := mustAcquire(t, m, seqs, clockAt(0), named("b"))
		id, err = b.g.NextID()
		require.NoError(t, err)
		require.Equal(t, 0, seqs.Decode(id).ClockSeq)
		require.NoError(t, b.Release(t.Context()))
		c := mustAcquire(t, m, seqs, clockAt(0), named("c"))
		c.next()
		by, err := Whois(t.Context(), m, id)
		require.NoError(t, err)
		assert.Equal(t, "b", by.Owner)
	})
}
