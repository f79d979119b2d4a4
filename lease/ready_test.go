//go:build go1.25

package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// Ready says whether an ID can be issued now and, if not, why, for how long and what would shorten
// that. It agrees with a call at that moment, and is nil again after the cause has ended.
func TestReadySaysWhyNoIDIsIssued(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		begin  func(m *memory, h *holder) // what makes the lease unready,
		end    func(m *memory, h *holder) // and ends that; nil: nothing does
		is     []error
		says   []string
	}{
		"the store is away": {
			begin: func(m *memory, _ *holder) { m.becomes(down); time.Sleep(2 * span) },
			end:   func(m *memory, _ *holder) { m.becomes(); time.Sleep(span) },
			is:    []error{snowflake.ErrLeaseExpired, errDown},
			says:  []string{"may stamp IDs before", "as soon as the store answers, which is asked at least every 1s"},
		},
		"a record cannot be read": {
			begin: func(m *memory, h *holder) { m.becomes(bad, ofSaves(down)); time.Sleep(2 * span) },
			end:   func(m *memory, _ *holder) { m.becomes(); time.Sleep(span) },
			is:    []error{snowflake.ErrLeaseExpired},
		},
		"the clock is behind": {
			begin: func(_ *memory, h *holder) { h.c.step(-10 * time.Second) },
			end:   func(*memory, *holder) { time.Sleep(11 * time.Second) },
			is:    []error{snowflake.ErrClockBackward},
			says:  []string{"10s behind", "IDs are issued again in 10s, when the clock has caught up, or sooner if it is set right"},
		},
		"the clock leapt": {
			begin: func(_ *memory, h *holder) { time.Sleep(500 * ms); h.c.step(time.Hour); time.Sleep(10 * time.Second) },
			end:   func(*memory, *holder) { time.Sleep(time.Minute) },
			is:    []error{snowflake.ErrLeaseExpired, ErrClockLeap},
			says:  []string{"MaxLeap allows 1m0s", "the leap is accepted in 5", "if the clock runs steadily, or by AcceptLeap"},
		},
		"the worker ID is lost, and none is free": {
			change: func(o *Options) { o.Count = 1 },
			begin: func(m *memory, h *holder) {
				for range 6 { // another holder lives
					m.take(0, "another")
					time.Sleep(span * 7 / 8)
				}
			},
			end:  func(m *memory, h *holder) { m.give(0); time.Sleep(4 * span) },
			is:   []error{snowflake.ErrLeaseExpired, ErrLost, ErrExhausted},
			says: []string{"a worker ID comes free when a holder releases it, or a window after a holder's crash"},
		},
		"the worker ID is lost, with OnLoss: Stop": {
			change: stops,
			begin:  func(m *memory, h *holder) { m.take(h.Worker(), "another"); time.Sleep(2 * span) },
			is:     []error{snowflake.ErrLeaseExpired, ErrLost},
			says:   []string{"the lease has ended for good: acquire another one"},
		},
		"the lease was released": {
			begin: func(_ *memory, h *holder) { _ = h.Release(h.t.Context()) },
			is:    []error{snowflake.ErrLeaseExpired, ErrReleased},
			says:  []string{"the lease has ended for good: acquire another one"},
		},
		"the process stood still": {
			begin: func(_ *memory, h *holder) { h.c.step(4 * time.Second) },
			end:   func(*memory, *holder) { time.Sleep(span) },
			is:    []error{snowflake.ErrLeaseExpired, errPaused},
			says:  []string{"a call renews the lease at once, or the lease does so itself within 1s"},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			m, change := newMemory(), test.change
			if change == nil {
				change = func(*Options) {}
			}
			h := mustAcquire(t, m, fleet, clockAt(0), change)
			h.next()
			require.NoError(t, h.Ready())
			test.begin(m, h)
			issued, err := h.g.Stats().Issued, h.Ready()
			require.Equal(t, err, h.Ready(), "the query changes nothing")
			for _, is := range test.is {
				require.ErrorIs(t, err, is)
			}
			for _, says := range test.says {
				assert.ErrorContains(t, err, says)
			}
			assert.Equal(t, issued, h.g.Stats().Issued)
			if test.end == nil {
				return
			}
			test.end(m, h)
			require.NoError(t, h.Ready())
			h.next()
		})
	}
}

// While IDs of the window are left, the lease is ready, although renewals fail or the worker ID is
// lost.
func TestReadyUntilTheWindowEnds(t *testing.T) {
	for name, begin := range map[string]func(m *memory){
		"the store is away":     func(m *memory) { m.becomes(down) },
		"the worker ID is lost": func(m *memory) { m.take(0, "another") },
	} {
		inBubble(t, name, func(t *testing.T) {
			m := newMemory()
			h := mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Count = 1 })
			begin(m)
			time.Sleep(span - ms)
			require.NoError(t, h.Ready())
			h.next()
			time.Sleep(ms)
			require.ErrorIs(t, h.Ready(), snowflake.ErrLeaseExpired)
		})
	}
}

// A policy that waits for a clock that is a little behind issues an ID all the same.
func TestReadyIfThePolicyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clockAt(0)
		l, err := Acquire(t.Context(), newMemory(), &Options{Layout: fleet, Clock: c, NewStore: true})
		require.NoError(t, err)
		defer l.Release(t.Context())
		g, err := snowflake.NewLeased(l, &snowflake.Options{OnBackward: snowflake.WaitPolicy(time.Second)})
		require.NoError(t, err)
		_, err = g.NextID()
		require.NoError(t, err)
		c.step(-time.Second)
		require.NoError(t, l.Ready())
		c.step(-ms)
		require.ErrorIs(t, l.Ready(), snowflake.ErrClockBackward)
	})
}

// Before NewLeased, Ready looks at the grant alone.
func TestReadyWithoutAGenerator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(), clockAt(0)
		l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Clock: c, NewStore: true})
		require.NoError(t, err)
		require.NoError(t, l.Ready())
		c.step(-span - time.Second)
		require.ErrorIs(t, l.Ready(), snowflake.ErrClockBackward)
		c.set(0)
		m.becomes(down)
		time.Sleep(2 * span)
		require.ErrorIs(t, l.Ready(), errDown)
		m.becomes()
		require.NoError(t, l.Release(t.Context()))
		require.ErrorIs(t, l.Ready(), ErrReleased)
	})
}

func TestReadyOfALeaseThatAcquireDidNotReturn(t *testing.T) {
	var l *Lease
	require.ErrorIs(t, l.Ready(), ErrInvalidOptions)
	require.ErrorIs(t, new(Lease).Ready(), ErrInvalidOptions)
}
