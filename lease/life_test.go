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
