package lease

import (
	"context"
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
	for name, fault := range map[string]fault{
		"down": down, "hanging": hangs, "bad": bad, "answers lost": silent,
		"saves hanging": slow(time.Hour), "saves slow": slow(span / 2), "saves too late": late(span),
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
				m.becomes(fault)
				time.Sleep(10 * time.Minute)
				m.becomes()
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
