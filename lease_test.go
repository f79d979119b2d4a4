//go:build go1.25

package snowflake

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/contract"
)

// testLease grants what the test sets, on terms that the test sets.
type testLease struct {
	contract.Private[Layout]
	terms *terms
	grant atomic.Pointer[Grant]
	asked atomic.Int64
	clock Clock
}

func newTestLease(from, to time.Time) *testLease {
	l := &testLease{terms: &terms{Bind: func(binding) error { return nil }}}
	l.Private = contract.Keep(l.terms)
	l.grant.Store(&Grant{Worker: 1, From: from, To: to})
	return l
}

// bind returns the binding that the generator gives l when it is made.
func (l *testLease) bind() *binding {
	b := new(binding)
	l.terms.Bind = func(told binding) error { *b = told; return nil }
	return b
}

func (l *testLease) change(f func(*Grant)) {
	g := *l.grant.Load()
	f(&g)
	l.grant.Store(&g)
}

func (l *testLease) Grant() Grant {
	l.asked.Add(1)
	return *l.grant.Load()
}

func (l *testLease) Clock() Clock { return l.clock }

// extending is a testLease that answers a call of Extend.
type extending struct {
	*testLease
	extend func(context.Context, Grant, time.Time) error
}

func (l extending) Extend(ctx context.Context, g Grant, now time.Time) error {
	return l.extend(ctx, g, now)
}

// bumping is a testLease that answers a call of Bump.
type bumping struct {
	*testLease
	bump func(context.Context, Grant, time.Time) error
}

func (bumping) CanBump(time.Time) bool { return true }

func (l bumping) Bump(ctx context.Context, g Grant, now time.Time) error { return l.bump(ctx, g, now) }

func newLeasedIssuer(t *testing.T, l Lease, opts *Options) *issuer {
	t.Helper()
	g, err := NewLeased(l, opts)
	require.NoError(t, err)
	return &issuer{g, t, map[ID]bool{}}
}

func TestNewLeasedRefuses(t *testing.T) {
	l, clock := newTestLease(noon, noon), &stopped{noon}
	for _, none := range []Lease{nil, (*testLease)(nil)} {
		_, err := NewLeased(none, nil)
		assert.ErrorIs(t, err, ErrInvalidOptions)
	}
	_, err := NewLeased(l, &Options{Layout: Layout{Unit: ms, TimeBits: 41}, Clock: clock})
	assert.ErrorIs(t, err, ErrWorkerRange)
	_, err = NewLeased(l, &Options{Layout: ClockSeqLayout(), OnBackward: ClockSeqPolicy(), Clock: clock})
	require.ErrorIs(t, err, ErrInvalidOptions)
	assert.ErrorContains(t, err, "the lease cannot change its clock sequence")
}

// A lost worker ID may come back with another clock sequence that no policy asked for.
func TestLeaseThatChangesItsClockSequenceKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLease(noon, noon.Add(10*ms))
		l.change(func(g *Grant) { g.ClockSeq = 1 })
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: newTestClock(), BorrowAhead: 9 * ms, OnBackward: FailPolicy()})
		ids := make([]ID, 10*4)
		_, err := i.Fill(t.Context(), ids)
		require.NoError(t, err)
		time.Sleep(ms)
		l.grant.Store(&Grant{Worker: 1, ClockSeq: 0, From: noon.Add(-ms), To: noon.Add(20 * ms)})
		id, err := i.NextID()
		require.NoError(t, err)
		assert.Greater(t, id, ids[len(ids)-1])
		assert.Zero(t, i.Decode(id).ClockSeq)
	})
}

// If all 63 bits are time, an int64 cannot hold the tick after the last one.
func TestLeaseMayEndInTheLastTickOf63Bits(t *testing.T) {
	layout := Layout{Unit: 7, TimeBits: 63}
	now := layout.Epoch.Time().Add(time.Hour)
	for _, end := range []time.Time{
		now.Add(time.Hour), layout.Expires().Add(-7), layout.Expires().Add(-1), layout.Expires(),
		layout.Expires().Add(1),
	} {
		l := newTestLease(layout.Epoch.Time(), end)
		l.change(func(g *Grant) { g.Worker = 0 })
		g, err := NewLeased(l, &Options{Layout: layout, Clock: &stopped{now}})
		require.NoError(t, err)
		id, err := g.NextID()
		require.NoError(t, err, "%v", end)
		require.Equal(t, ID(time.Hour/7), id)
	}
}

// The generator asks the lease when its window's end is near, not for every ID.
func TestLeaseIsNotAskedOnTheHotPath(t *testing.T) {
	l := newTestLease(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	i := newLeasedIssuer(t, l, nil)
	asked := l.asked.Load()
	for range 10_000 {
		i.next()
	}
	assert.Equal(t, asked, l.asked.Load())
}

// A generator continues with its lease's clock, in the state that the clock is in. If the wall
// clock had stepped in between, a new monotonic clock would disagree with the lease's for ever. If
// the lease's clock were absorbing a correction, a new system clock would read earlier than the
// window.
func TestLeasedUsesTheClockOfTheLease(t *testing.T) {
	for _, c := range []Clock{SystemClock(), MonotonicClock()} {
		clock := c.(*builtinClock)
		clock.Now()
		clock.wall.ahead = int32(2 * time.Second) // the wall clock was, when the lease read it
		now := clock.Now()
		l := newTestLease(now.Add(-time.Minute), now.Add(time.Minute))
		l.clock = clock
		i := newLeasedIssuer(t, l, nil)
		require.WithinDuration(t, clock.Now(), i.next().Time, time.Second/2)
	}
}

func TestExpiredLeaseSaysWhoWhenAndWhy(t *testing.T) {
	away := errors.New("connection refused")
	for _, tt := range []struct {
		extend func(context.Context, Grant, time.Time) error
		cause  error
		text   string
	}{
		{nil, nil, ""},
		// it did not extend
		{func(context.Context, Grant, time.Time) error { return nil }, nil, ""},
		{func(context.Context, Grant, time.Time) error { return away }, away, "connection refused; "},
	} {
		synctest.Test(t, func(t *testing.T) {
			// A tick belongs to the window that contains its start.
			var l Lease = newTestLease(noon.Add(-time.Second), noon.Add(2*ms+1))
			if tt.extend != nil {
				l = extending{l.(*testLease), tt.extend}
			}
			i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: newTestClock()})
			for tick := range 3 {
				i.spend(4, noon.Add(time.Duration(tick)*ms))
			}
			time.Sleep(ms)
			err := i.refused(ErrLeaseExpired)
			assert.Equal(t, &LeaseExpiredError{Worker: 1, NotAfter: noon.Add(2*ms + 1), Time: noon.Add(3 * ms), Cause: tt.cause}, err)
			assert.EqualError(t, err, "snowflake: lease expired: "+tt.text+
				"worker 1 may stamp IDs before 2026-11-21T12:00:00.002Z, the next would be at 2026-11-21T12:00:00.003Z")
			assert.Equal(t, tt.cause, errors.Unwrap(err))
		})
	}
}

// If a call's context is done, a store may return an error of its own, as a driver does when its
// connection was cut. The call returns the context's error, not an expired lease.
func TestLeasedCallWithDoneContextReturnsItsError(t *testing.T) {
	cut := errors.New("connection was cut")
	answer := func(ctx context.Context, _ Grant, _ time.Time) error {
		<-ctx.Done()
		return cut
	}
	for name, make := range map[string]func(*testLease) Lease{
		"extend": func(l *testLease) Lease { return extending{l, answer} },
		"bump":   func(l *testLease) Lease { return bumping{l, answer} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, l := newTestClock(), newTestLease(noon.Add(-time.Hour), noon.Add(ms))
				i := newLeasedIssuer(t, make(l), &Options{Layout: small, Clock: c, OnBackward: always(ActionBump)})
				i.spend(1, noon)
				c.step(map[string]time.Duration{"extend": ms, "bump": -time.Second}[name])
				ctx, cancel := context.WithTimeout(t.Context(), ms)
				defer cancel()
				_, err := i.NextIDContext(ctx)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, cut)
				assert.NotErrorIs(t, err, ErrLeaseExpired)
			})
		})
	}
}

// An Extender that keeps its contract may give too little each time.
func TestLeasedCallEndsThoughEachExtensionGivesTooLittle(t *testing.T) {
	c, asked := &stopped{noon}, 0
	ctx, cancel := context.WithCancel(t.Context())
	l := newTestLease(noon.Add(-time.Hour), noon.Add(ms))
	i := newLeasedIssuer(t, extending{l, func(context.Context, Grant, time.Time) error {
		if asked++; asked == 10 {
			cancel()
		}
		if asked > 10*maxExtends {
			return errAway
		}
		l.change(func(g *Grant) { g.To = g.To.Add(1) })
		return nil
	}}, &Options{Clock: c})
	c.now = noon.Add(time.Hour)
	_, err := i.NextIDContext(ctx)
	assert.Equal(t, context.Canceled, err)
	assert.Equal(t, 10, asked)
	_, err = i.NextID()
	assert.ErrorIs(t, err, ErrLeaseExpired)
	assert.Equal(t, 10+maxExtends, asked)
}

// A call has put back an ID of the tick after noon's. Then a floor lies above it, and the clock
// goes back below the floor.
func TestNothingThatWasPutBackIsIssuedBelowAFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, l := &stopped{noon}, newTestLease(noon.Add(-time.Hour), noon.Add(time.Hour))
		b := l.bind()
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c})
		i.spend(4, noon)
		ctx, cancel := context.WithTimeout(t.Context(), 2*ms)
		defer cancel()
		_, err := i.NextIDContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.now = noon.Add(3 * ms)
		assert.Equal(t, c.now, b.Floor())
		c.now = noon.Add(ms)
		_, err = i.NextID()
		assert.ErrorIs(t, err, ErrClockBackward)
	})
}

// A floor that a leap of the clock has closed holds for one worker ID, and not for its replacement.
func TestReplacedWorkerIDIsNotStrandedBehindAFloor(t *testing.T) {
	c, l := &stopped{noon}, newTestLease(noon.Add(-time.Hour), noon.Add(time.Hour))
	b := l.bind()
	i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c, OnBackward: FailPolicy()})
	i.next()
	c.now = noon.Add(time.Minute)
	b.Floor()
	c.now = noon.Add(time.Second)
	_, err := i.NextID()
	require.ErrorIs(t, err, ErrClockBackward)
	l.change(func(g *Grant) { g.Worker = 2 })
	id, err := i.NextID()
	require.NoError(t, err)
	assert.Equal(t, 2, i.Decode(id).Worker)
	assert.Equal(t, c.now, i.Decode(id).Time)
}

// The lease has taken back a part of what it had granted.
func TestRewindDoesNotGoBackToWhatTheLeaseHasTakenBack(t *testing.T) {
	c, l := &stopped{noon}, newTestLease(noon.Add(-time.Hour), noon.Add(time.Hour))
	b := l.bind()
	i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c, OnBackward: RewindPolicy(), RewindTicks: 100})
	i.next()
	c.now = noon.Add(20 * ms)
	i.next()
	l.change(func(g *Grant) { g.From = noon.Add(15 * ms) })
	b.Look()
	c.now = noon.Add(14 * ms)
	_, err := i.NextID()
	assert.ErrorIs(t, err, ErrClockBackward)
	c.now = noon.Add(15 * ms)
	i.spend(1, c.now)
}

// Another call changes the clock sequence while the policy is asked.
func TestOneStepBackTakesOneClockSequence(t *testing.T) {
	c, l, bumps := &stopped{noon}, newTestLease(noon.Add(-time.Hour), noon.Add(time.Hour)), 0
	var i *issuer
	i = newLeasedIssuer(t, bumping{l, func(_ context.Context, g Grant, _ time.Time) error {
		if g == *l.grant.Load() {
			bumps++
			l.change(func(g *Grant) { g.ClockSeq++ })
		}
		return nil
	}}, &Options{Layout: small, Clock: c, OnBackward: BackwardFunc(func(b Backward) Action {
		if bumps == 0 {
			assert.NoError(t, i.bump(t.Context(), *l.grant.Load(), b.Now))
		}
		return ActionBump
	})})
	i.next()
	c.now = noon.Add(-time.Second)
	i.spend(1, c.now)
	assert.Equal(t, 1, bumps)
}

// The lease has changed the clock sequence for a call, and fails for another call before the first
// one has seen the change.
func TestBumpCountsWhileAnotherFails(t *testing.T) {
	c, l := &stopped{noon}, newTestLease(noon.Add(-time.Hour), noon.Add(time.Hour))
	var i *issuer
	i = newLeasedIssuer(t, bumping{l, func(ctx context.Context, g Grant, now time.Time) error {
		if g.ClockSeq == 1 {
			return errAway
		}
		l.change(func(g *Grant) { g.ClockSeq++ })
		assert.Equal(t, errAway, i.bump(ctx, *l.grant.Load(), now))
		return nil
	}}, &Options{Layout: small, Clock: c, OnBackward: ClockSeqPolicy()})
	i.next()
	c.now = noon.Add(-time.Second)
	i.spend(1, c.now)
	assert.EqualValues(t, 1, i.Stats().Bumps)
}

// A lease without Extend may renew itself, but no renewal makes a tick begin earlier.
func TestLeasedCallIsRefusedAtOnceIfItsTickBeginsAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hours := Layout{Epoch: DefaultEpoch, Unit: time.Hour, TimeBits: 30, WorkerBits: 4}
		i := newLeasedIssuer(t, newTestLease(noon.Add(-time.Hour), noon.Add(time.Hour)), &Options{Layout: hours, Clock: newTestClock()})
		i.spend(1, noon)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		_, err := i.NextIDContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, time.Since(begun))
		_, err = i.NextID()
		assert.ErrorIs(t, err, ErrLeaseExpired)
		assert.Equal(t, time.Hour, time.Since(begun))
		stats := i.Stats()
		assert.EqualValues(t, 1, stats.Waits, "though the call looked at the lease again and again")
		assert.Equal(t, time.Hour, stats.Waited)
	})
}

// A call that has borrowed as much as the lease grants gets its ID if the lease is renewed before
// the call's deadline.
func TestLeasedCallThatBorrowsWaitsForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLease(noon.Add(-time.Hour), noon.Add(time.Second))
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: newTestClock(), BorrowAhead: time.Hour})
		_, err := i.Fill(t.Context(), make([]ID, 4*1000))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		p := i.start(ctx)
		l.change(func(g *Grant) { g.To = noon.Add(time.Hour) })
		time.Sleep(100 * ms)
		assert.Equal(t, 4*1000, i.place(p))
	})
}

var errClone = errors.New("the machine was cloned")

// newClonedLease returns a lease on a machine that is cloned when the test changes its generation.
func newClonedLease() (extending, *atomic.Uint64) {
	l, generation := newTestLease(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)), new(atomic.Uint64)
	l.terms.Generation = func() *atomic.Uint64 { return generation }
	l.terms.Born = func() uint64 { return 0 }
	return extending{l, func(context.Context, Grant, time.Time) error { return errClone }}, generation
}

func TestGeneratorReturnsNothingOfAWindowOnAClonedMachine(t *testing.T) {
	for name, call := range map[string]func(g *Generator) error{
		"NextID":        func(g *Generator) error { _, err := g.NextID(); return err },
		"NextIDContext": func(g *Generator) error { _, err := g.NextIDContext(t.Context()); return err },
		"Fill":          func(g *Generator) error { _, err := g.Fill(t.Context(), make([]ID, 3)); return err },
	} {
		for _, clock := range []Clock{nil, ClockFunc(time.Now)} { // without the lock, and with it
			t.Run(name, func(t *testing.T) {
				l, generation := newClonedLease()
				g, err := NewLeased(l, &Options{Clock: clock})
				require.NoError(t, err)
				for range 100 {
					require.NoError(t, call(g))
				}
				issued := g.Stats().Issued
				generation.Store(1)
				for range 3 {
					err := call(g)
					require.ErrorIs(t, err, ErrLeaseExpired)
					require.ErrorIs(t, err, errClone)
				}
				assert.Equal(t, issued, g.Stats().Issued)
			})
		}
	}
}

// A generator that has found that it was cloned grants nothing more. Its floor is a time that a store
// can keep.
func TestFloorOfACloneIsATimeOfTheLayout(t *testing.T) {
	l, generation := newClonedLease()
	b := l.bind()
	g, err := NewLeased(l, nil)
	require.NoError(t, err)
	generation.Store(1)
	_, err = g.NextID()
	require.ErrorIs(t, err, errClone)
	require.False(t, b.Floor().Before(g.Layout().Epoch.Time()))
}

// The snapshot is taken after the call has begun, and before it chooses its ID: both copies choose
// the same one.
func TestCloneBeforeTheChoiceIsNoticed(t *testing.T) {
	l, generation := newClonedLease()
	g, err := NewLeased(l, &Options{Clock: ClockFunc(func() time.Time {
		generation.Add(1)
		return time.Now()
	})})
	require.NoError(t, err)
	generation.Store(0)
	_, err = g.NextID()
	require.ErrorIs(t, err, errClone)
}

// A lease on a machine that is cloned may take another worker ID at once. Each copy has the slots of
// the calls that wait.
func TestSlotFromBeforeACloneIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(noon))
		l, generation := newClonedLease()
		l.terms.Born = generation.Load
		l.extend = func(context.Context, Grant, time.Time) error { return nil }
		layout := DefaultLayout()
		layout.Unit, layout.SequenceBits = time.Second, 1
		g, err := NewLeased(l, &Options{Layout: layout})
		require.NoError(t, err)
		const calls = 4
		ids := make(chan ID, calls)
		for range 2 + calls { // the tick has two
			go func() {
				id, err := g.NextID()
				assert.NoError(t, err)
				ids <- id
			}()
			synctest.Wait()
		}
		<-ids
		<-ids
		generation.Store(1)
		l.change(func(g *Grant) { g.Worker = 2 })
		for range calls {
			assert.Equal(t, 2, g.Decode(<-ids).Worker)
		}
	})
}

// lateLease calls then after each answer.
type lateLease struct {
	extending
	then func()
}

func (l lateLease) Grant() Grant {
	defer l.then()
	return l.testLease.Grant()
}

// The machine is cloned, and the lease takes another worker ID, while the generator reads the grant
// and its generation. The generator must not mistake the grant from before the clone for a later
// one.
func TestCloneWhileTheGrantIsRead(t *testing.T) {
	cloned, generation := newClonedLease()
	born, answers := uint64(0), 0
	l := lateLease{cloned, func() {
		if answers++; answers == 2 { // the first call is NewLeased's, for the worker ID
			generation.Store(1)
			born = 1
			cloned.change(func(g *Grant) { g.Worker = 2 })
		}
	}}
	l.terms.Born = func() uint64 {
		defer l.then()
		return born
	}
	g, err := NewLeased(l, nil)
	require.NoError(t, err)
	for range 3 {
		if id, err := g.NextID(); err == nil {
			assert.Equal(t, 2, g.Decode(id).Worker)
		} else {
			require.ErrorIs(t, err, errClone)
		}
	}
}

// The snapshot is taken while Fill waits for a tick: each copy has the IDs of the ticks before it.
func TestGeneratorReturnsNothingThatItChoseBeforeTheSnapshot(t *testing.T) {
	l, generation := newClonedLease()
	reads, cloneAt := 0, 0
	g, err := NewLeased(l, &Options{Clock: ClockFunc(func() time.Time {
		if reads++; reads == cloneAt {
			generation.Store(1)
		}
		return time.Now()
	})})
	require.NoError(t, err)
	cloneAt = reads + 5
	n, err := g.Fill(t.Context(), make([]ID, 20_000)) // of five ticks
	require.ErrorIs(t, err, errClone)
	assert.Greater(t, reads, cloneAt)
	assert.Zero(t, n)
	assert.Zero(t, g.Stats().Issued)
}
