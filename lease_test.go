package snowflake

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeLease is a lease whose window the test moves.
type fakeLease struct {
	from, to atomic.Pointer[time.Time]
	asked    atomic.Int64
}

func newFakeLease(from, to time.Time) *fakeLease {
	l := new(fakeLease)
	l.from.Store(&from)
	l.to.Store(&to)
	return l
}

func (l *fakeLease) grow(to time.Time) { l.to.Store(&to) }

func (l *fakeLease) Grant() Grant {
	l.asked.Add(1)
	return Grant{Worker: 1, From: *l.from.Load(), To: *l.to.Load()}
}

func newLeasedIssuer(t *testing.T, l Lease, opts *Options) *issuer {
	t.Helper()
	g, err := NewLeased(l, opts)
	require.NoError(t, err)
	return &issuer{g, t, map[ID]bool{}}
}

func TestLeasedStampsOnlyInsideTheWindow(t *testing.T) {
	// The window begins and ends within a tick. A tick belongs to the window that
	// contains its start, so that no two windows share a tick.
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLease(noon.Add(-time.Second), noon.Add(2*ms+1))
		c := newTestClock()
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c})
		for tick := range 3 {
			i.spend(4, noon.Add(time.Duration(tick)*ms))
		}
		time.Sleep(ms)
		err := i.refused(ErrLeaseExpired)
		var expired *LeaseExpiredError
		require.ErrorAs(t, err, &expired)
		assert.Equal(t, 1, expired.Worker)
		assert.Equal(t, noon.Add(2*ms+1), expired.NotAfter)
		assert.Equal(t, noon.Add(3*ms), expired.Time)
		assert.ErrorContains(t, err, "worker 1 may stamp IDs before 2026-11-21T12:00:00.002Z, the next would be at 2026-11-21T12:00:00.003Z")

		next := newLeasedIssuer(t, newFakeLease(noon.Add(2*ms+1), noon.Add(time.Hour)), &Options{Layout: small, Clock: c})
		next.seen = i.seen
		c.step(-ms) // the next holder's clock reads an earlier time
		next.spend(4, noon.Add(3*ms))
	})
}

// A window may also move to a tick that the generator has stamped or passed.
func TestLeasedDoesNotRewindBeforeAWindowThatBeginsInThePast(t *testing.T) {
	for _, begins := range []time.Duration{5 * ms, 9 * ms} {
		synctest.Test(t, func(t *testing.T) {
			l := newFakeLease(noon, noon.Add(10*ms))
			c := newTestClock()
			i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c, OnBackward: RewindPolicy(), RewindTicks: 100})
			time.Sleep(9 * ms)
			i.spend(1, noon.Add(9*ms))
			from := noon.Add(begins)
			l.from.Store(&from)
			l.grow(noon.Add(20 * ms))
			time.Sleep(ms)
			i.spend(1, noon.Add(10*ms))
			c.step(begins - 11*ms)
			_, err := i.NextID()
			require.ErrorIs(t, err, ErrClockBackward, "the tick before the window is closed to rewinding")
			c.step(ms)
			i.spend(1, from)
		})
	}
}

// changingLease is a lease whose grant the test changes.
type changingLease struct{ grant Grant }

func (l *changingLease) Grant() Grant { return l.grant }

// A lost worker ID may come back with another clock sequence, which no policy
// asked for.
func TestLeaseThatChangesItsClockSequenceKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &changingLease{Grant{Worker: 1, ClockSeq: 1, From: noon, To: noon.Add(10 * ms)}}
		g, err := NewLeased(l, &Options{Layout: Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 45, ClockSeqBits: 2, WorkerBits: 4, SequenceBits: 2}, Clock: newTestClock(), BorrowAhead: 9 * ms, OnBackward: FailPolicy()})
		require.NoError(t, err)
		ids := make([]ID, 10*4)
		_, err = g.Fill(t.Context(), ids)
		require.NoError(t, err)
		time.Sleep(ms)
		l.grant = Grant{Worker: 1, ClockSeq: 0, From: noon.Add(-ms), To: noon.Add(20 * ms)}
		id, err := g.NextID()
		require.NoError(t, err)
		assert.Greater(t, id, ids[len(ids)-1])
		assert.Zero(t, g.Decode(id).ClockSeq)
	})
}

// A clock sequence has to be recorded before it is used. A plain Lease cannot do
// that.
func TestLeasedWithoutBumpKeepsItsClockSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		i := newLeasedIssuer(t, newFakeLease(noon.Add(-time.Hour), noon.Add(time.Hour)),
			&Options{Layout: small, Clock: c, OnBackward: always(ActionBump), RewindTicks: 1})
		i.spend(1, noon)
		c.step(-ms)
		i.refused(ErrClockBackward)
	})
}

func TestNewLeasedRefuses(t *testing.T) {
	_, err := NewLeased(nil, nil)
	assert.ErrorIs(t, err, ErrInvalidOptions)
	_, err = NewLeased(newFakeLease(noon, noon), &Options{Layout: Layout{Unit: ms, TimeBits: 41}})
	assert.ErrorIs(t, err, ErrWorkerRange)
}

// The generator asks the lease when its window's end is near, not for every ID.
func TestLeaseIsNotAskedOnTheHotPath(t *testing.T) {
	l := newFakeLease(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	g, err := NewLeased(l, nil)
	require.NoError(t, err)
	asked := l.asked.Load()
	for range 10_000 {
		_, err := g.NextID()
		require.NoError(t, err)
	}
	assert.Equal(t, asked, l.asked.Load())
}

// A generator goes on with its lease's clock, in the state that it has. A new
// monotonic clock would disagree with the lease's for ever, if the wall clock stepped
// in between. A new system clock would read earlier than the window, if the lease's
// clock absorbs a correction.
func TestLeasedUsesTheClockOfTheLease(t *testing.T) {
	for _, clock := range []Clock{SystemClock(), MonotonicClock()} {
		leasedClockIsTheLeases(t, clock.(*builtinClock))
	}
}

func leasedClockIsTheLeases(t *testing.T, clock *builtinClock) {
	t.Helper()
	clock.Now()
	clock.wall.ahead = int32(2 * time.Second) // the wall clock was, when the lease read it
	now := clock.Now()
	l := newFakeLease(now.Add(-time.Minute), now.Add(time.Minute))
	g, err := NewLeased(l, &Options{Clock: clock})
	require.NoError(t, err)
	id, err := g.NextID()
	require.NoError(t, err)
	require.WithinDuration(t, clock.Now(), g.Decode(id).Time, time.Second/2)
}

// managed is a fakeLease with terms, whose grant names the worker ID that the test
// sets.
type managed struct {
	*fakeLease
	worker atomic.Int64
	terms  terms
}

func (m *managed) Grant() Grant {
	g := m.fakeLease.Grant()
	g.Worker = int(m.worker.Load())
	return g
}

func (m *managed) Terms() terms { return m.terms }

func newManaged(from, to time.Time, terms terms) *managed {
	m := &managed{fakeLease: newFakeLease(from, to), terms: terms}
	m.worker.Store(1)
	return m
}

func TestLeasedErrorSaysWhyTheLeaseDidNotExtend(t *testing.T) {
	away := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		i := newLeasedIssuer(t, newManaged(noon, noon, terms{Extend: func(context.Context, Grant, time.Time) error { return away }}),
			&Options{Layout: small, Clock: newTestClock()})
		err := i.refused(ErrLeaseExpired)
		assert.ErrorIs(t, err, away)
		assert.ErrorContains(t, err, "lease expired: connection refused; worker 1 may stamp IDs before 2026-11-21T12:00:00.000Z, the next would be at 2026-11-21T12:00:00.000Z")
	})
	synctest.Test(t, func(t *testing.T) { // a lease that says it gave more, but did not
		i := newLeasedIssuer(t, newManaged(noon, noon, terms{Extend: func(context.Context, Grant, time.Time) error { return nil }}),
			&Options{Layout: small, Clock: newTestClock()})
		i.refused(ErrLeaseExpired)
	})
	synctest.Test(t, func(t *testing.T) { // the caller's own limit is not the lease's fault
		i := newLeasedIssuer(t, newManaged(noon, noon, terms{Extend: func(ctx context.Context, _ Grant, _ time.Time) error {
			<-ctx.Done()
			return ctx.Err()
		}}), &Options{Layout: small, Clock: newTestClock()})
		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		_, err := i.NextIDContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, ErrLeaseExpired)
	})
}

// If a call's context is done, a store may return its own error, as a driver does
// when its connection was cut.
func TestLeasedCallWithDoneContextReturnsItsError(t *testing.T) {
	cut := errors.New("connection was cut")
	answer := func(ctx context.Context) error {
		<-ctx.Done()
		return cut
	}
	for name, terms := range map[string]terms{
		"extend": {Extend: func(ctx context.Context, _ Grant, _ time.Time) error { return answer(ctx) }},
		"bump": {
			CanBump: func(time.Time) bool { return true },
			Bump:    func(ctx context.Context, _ Grant, _ time.Time) error { return answer(ctx) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClock()
				i := newLeasedIssuer(t, newManaged(noon.Add(-time.Hour), noon.Add(ms), terms), &Options{Layout: small, Clock: c, OnBackward: always(ActionBump)})
				i.spend(1, noon)
				c.step(map[string]time.Duration{"extend": ms, "bump": -time.Second}[name])
				ctx, cancel := context.WithTimeout(t.Context(), ms)
				defer cancel()
				_, err := i.NextIDContext(ctx)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, cut)
			})
		})
	}
}

// A clock that leapt, and was set right, leaves a window that begins far ahead. If its
// worker ID is lost before an ID was stamped there, the replacement does not wait for it.
func TestLeasedWorkerIsReplacedBeforeItsWindowBegins(t *testing.T) {
	far := noon.Add(70 * time.Minute)
	for _, stamped := range []bool{false, true} { // under worker 1, before worker 2 was granted
		for _, opts := range []Options{{OnBackward: FailPolicy()}, {OnBackward: RewindPolicy(), RewindTicks: 100}} {
			synctest.Test(t, func(t *testing.T) {
				var stop func(error) time.Time
				m := newManaged(noon, noon.Add(ms), terms{Bind: func(b binding) error { stop = b.Stop; return nil }})
				grant := func(worker int64, from time.Time) {
					m.worker.Store(worker)
					m.from.Store(&from)
					m.grow(from.Add(time.Hour))
				}
				if !stamped {
					grant(2, far)
				}
				behind := func(i *issuer) {
					_, err := i.NextID()
					require.ErrorIs(t, err, ErrClockBackward)
				}
				c := newTestClock()
				opts.Layout, opts.Clock = small, c
				i := newLeasedIssuer(t, m, &opts)
				if stamped {
					i.next()
					grant(2, far)
				}
				time.Sleep(ms)
				behind(i)
				grant(1, noon.Add(-time.Minute))
				if stamped {
					c.step(-time.Second)
					behind(i) // later IDs are greater
					c.step(time.Second)
				}
				i.spend(4, noon.Add(ms))

				grant(2, far)
				time.Sleep(time.Hour)
				behind(i)
				require.Equal(t, noon.Add(2*ms), stop(nil), "the end of the last tick that was stamped")
			})
		}
	}
}

func TestLeasedRefusesAGrantThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManaged(noon, noon.Add(ms), terms{})
		i := newLeasedIssuer(t, m, &Options{Layout: small, Clock: newTestClock()})
		i.spend(1, noon)
		m.worker.Store(16)
		time.Sleep(ms)
		err := i.refused(ErrWorkerRange)
		assert.ErrorContains(t, err, "worker 16")
	})
}

// A lease takes a part of its grant back. A call that waits for its tick there gets no such ID.
func TestCallThatWaitsGetsNothingOfAGrantThatWasTakenBack(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var look func()
			m := newManaged(noon, noon.Add(time.Hour), terms{Bind: func(b binding) error { look = b.Look; return nil }})
			g := newLeasedIssuer(t, m, &Options{Layout: small, Clock: newTestClock()})
			g.spend(4, noon)
			var wg sync.WaitGroup
			wg.Go(func() {
				id, err := g.NextID()
				if replaced {
					assert.NoError(t, err)
					assert.Equal(t, 0, g.Decode(id).Worker)
				} else {
					assert.ErrorIs(t, err, ErrLeaseExpired)
				}
			})
			synctest.Wait()
			m.grow(noon)
			look()
			if replaced {
				m.worker.Store(0)
				m.grow(noon.Add(time.Hour))
			}
			wg.Wait()
		})
	}
}

// After a rewind, the generator has stamped ticks that are later than its last ID.
func TestStopAfterARewindReturnsTheLatestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stop func(error) time.Time
		c := newTestClock()
		m := newManaged(noon, noon.Add(time.Hour), terms{Bind: func(b binding) error { stop = b.Stop; return nil }})
		i := newLeasedIssuer(t, m, &Options{Layout: small, Clock: c, OnBackward: RewindPolicy(), RewindTicks: 100})
		c.step(5 * ms)
		i.spend(1, noon.Add(5*ms))
		c.step(-3 * ms)
		i.spend(1, noon.Add(2*ms))
		assert.Equal(t, noon.Add(6*ms), stop(nil))
	})
}

// The window moves on after the clock was rewound, and the generator is stopped before it issues another ID.
func TestStopIsAfterTheIDsBeforeARewindAlsoIfTheWindowMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := newFakeLease(noon.Add(-time.Second), noon.Add(time.Second)), newTestClock()
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c, OnBackward: RewindPolicy(), RewindTicks: 20})
		i.next()
		c.step(10 * ms)
		assert.Equal(t, noon.Add(10*ms), i.next().Time)
		c.step(-8 * ms)
		assert.Equal(t, noon.Add(2*ms), i.next().Time)
		from := noon.Add(5 * ms)
		l.from.Store(&from)
		i.lookNow()
		assert.Equal(t, noon.Add(11*ms), i.stop(ErrLeaseExpired))
	})
}
