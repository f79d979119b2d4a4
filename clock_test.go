//go:build go1.25

package snowflake

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oldLayout returns a layout whose epoch is before a bubble's time.
func oldLayout() Layout {
	l := DefaultLayout()
	l.Epoch = UnixEpoch
	return l
}

// shiftWall moves the wall-clock part of a time by d and leaves its monotonic
// part alone, as no function of package time does.
func shiftWall(t *testing.T, at *time.Time, d time.Duration) {
	t.Helper()
	before := *at
	fraction := time.Duration(at.Nanosecond()) + d%time.Second
	require.True(t, 0 <= fraction && fraction < time.Second, "the fraction would carry")
	*(*uint64)(unsafe.Pointer(at)) += uint64(d/time.Second)<<30 + uint64(d%time.Second)
	require.Equal(t, d, at.Round(0).Sub(before.Round(0)), "the wall part has moved")
	require.Zero(t, at.Sub(before), "the monotonic part has not")
}

// justNow moves w's anchor to this instant, so that even in a slow test the next reading does not
// look at the wall clock.
func justNow(w *wall) { ago(w, w.mono-w.elapsed()) }

// ago moves w's anchor back by d.
func ago(w *wall, passed time.Duration) {
	w.anchor = w.anchor.Add(-passed)
	w.mono -= passed
}

// agreement compares a clock with time.Now, which reads the wall clock first and the monotonic
// clock second. If the thread was preempted between the two when the clock took its anchor, the
// clock is late by as much until the next anchor.
type agreement struct {
	late time.Duration // the length of the longest call that may have taken an anchor
}

// during calls f, which may take an anchor, and returns time.Now from before and after.
func (a *agreement) during(f func()) (before, after time.Time) {
	before = time.Now()
	f()
	after = time.Now()
	a.late = max(a.late, after.Sub(before))
	return before.Round(0), after.Round(0)
}

// requireReads checks that the clock agrees with time.Now, off by offset.
func (a *agreement) requireReads(t *testing.T, now func() time.Time, offset time.Duration) {
	t.Helper()
	var coarse time.Duration
	if runtime.GOOS == "js" {
		// Two calls read the two parts of a time. On a busy machine, time passes between them.
		coarse = 500 * time.Millisecond
	}
	var reading time.Time
	before, after := a.during(func() { reading = now() })
	before, after = before.Add(offset-coarse-a.late), after.Add(offset+coarse)
	require.Falsef(t, reading.Before(before), "%v reads less than %v", reading, before)
	require.Falsef(t, reading.After(after), "%v reads more than %v", reading, after)
}

func TestMonotonicClockNeverSteps(t *testing.T) {
	c, a := MonotonicClock().(*builtinClock), agreement{}
	a.requireReads(t, c.Now, 0)
	shiftWall(t, &c.wall.anchor, time.Hour) // the wall clock was set back by an hour
	ago(&c.wall, 24*time.Hour)
	a.requireReads(t, c.Now, time.Hour)
}

// A step of the wall clock is seen within 100 ms.
func TestGeneratorFollowsWallClock(t *testing.T) {
	var g *Generator
	var a agreement
	a.during(func() {
		var err error
		g, err = New(0, &Options{Layout: Layout{Epoch: UnixEpoch, Unit: time.Nanosecond, TimeBits: 63}, Clock: SystemClock()})
		require.NoError(t, err)
	})
	next := func() time.Time {
		id, err := g.NextID()
		require.NoError(t, err)
		return g.Decode(id).Time
	}
	// The wall clock steps forward by an hour. To the generator, that looks like an anchor whose wall
	// clock was off by as much the other way.
	shiftWall(t, &g.wall.anchor, -time.Hour)
	justNow(&g.wall)
	a.requireReads(t, next, -time.Hour)
	ago(&g.wall, 100*time.Millisecond)
	a.requireReads(t, next, 0)

	// And back by an hour: the generator must notice, and refuse.
	shiftWall(t, &g.wall.anchor, time.Hour)
	justNow(&g.wall)
	a.requireReads(t, next, time.Hour)
	ago(&g.wall, 100*time.Millisecond)
	_, err := g.NextID()
	var back *ClockBackwardError
	require.ErrorAs(t, err, &back)
	require.InDelta(t, time.Hour, back.By(), float64(time.Minute))
}

// The hot path looks at the wall clock often enough, even if a tick is long.
func TestLongTicksDoNotHideSteps(t *testing.T) {
	g, err := New(0, &Options{Layout: Layout{Epoch: UnixEpoch, Unit: time.Hour, TimeBits: 40, SequenceBits: 20}, Clock: SystemClock()})
	require.NoError(t, err)
	_, err = g.NextID()
	require.NoError(t, err)
	assert.LessOrEqual(t, time.Duration(g.until.Load()), monotonic()+50*time.Millisecond)
}

// After a refusal, no ID may come from the clock's earlier readings.
func TestStepBackOfTheWallClockStaysRefused(t *testing.T) {
	g, err := New(0, &Options{Layout: Layout{Epoch: UnixEpoch, Unit: time.Minute, TimeBits: 40, SequenceBits: 10}, Clock: SystemClock()})
	require.NoError(t, err)
	shiftWall(t, &g.wall.anchor, time.Hour)
	justNow(&g.wall)
	_, err = g.NextID()
	require.NoError(t, err)
	ago(&g.wall, 100*time.Millisecond) // an hour back, seen at the next reading
	g.until.Add(-int64(100 * time.Millisecond))
	for range 3 {
		_, err = g.NextID()
		require.ErrorIs(t, err, ErrClockBackward)
	}
}

// In a bubble, time is the bubble's: it begins in 2000 and moves by Sleep. No call continues in a
// tick that has ended, even if the tick has IDs left.
func TestEveryCallFollowsTheBuiltinClock(t *testing.T) {
	calls := map[string]func(*Generator) (ID, error){
		"NextID":        (*Generator).NextID,
		"NextIDContext": func(g *Generator) (ID, error) { return g.NextIDContext(t.Context()) },
		"Fill": func(g *Generator) (ID, error) {
			dst := make([]ID, 3)
			_, err := g.Fill(t.Context(), dst)
			return dst[2], err
		},
	}
	for clock, newClock := range map[string]func() Clock{"system": SystemClock, "monotonic": MonotonicClock} {
		for name, call := range calls {
			t.Run(clock+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newClock()
					g, err := New(1, &Options{Clock: newClock(), Layout: oldLayout()})
					require.NoError(t, err)
					for _, d := range []time.Duration{
						0, 0, time.Millisecond, 0, 2 * time.Millisecond, 49 * time.Millisecond,
						24 * time.Hour,
					} {
						time.Sleep(d)
						id, err := call(g)
						require.NoError(t, err)
						require.Equal(t, time.Now().UTC(), g.Decode(id).Time)
						require.True(t, time.Now().Equal(c.Now()))
					}
				})
			})
		}
	}
}

// If the wall clock is set back a little, again and again, as by slewing, no reading goes back, and
// the last one agrees with the wall clock.
func TestSystemClockAbsorbsSlew(t *testing.T) {
	for _, slew := range []time.Duration{time.Microsecond, 25 * time.Microsecond, 4200 * time.Microsecond, maxSlew} {
		t.Run(slew.String(), func(t *testing.T) {
			start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
			w := wall{anchor: start}
			last, now := start, start
			step := func(passed time.Duration) {
				reading := w.at(passed)
				require.Falsef(t, reading.Before(last), "%v after %v", reading, last)
				require.LessOrEqual(t, reading.Sub(now.Add(passed)), maxSlew)
				last = reading
			}
			for range 100 {
				for passed := time.Duration(0); passed < anchorEvery; passed += anchorEvery / 64 {
					step(passed)
				}
				now = now.Add(anchorEvery - slew)
				w.reanchor(now, w.mono+anchorEvery)
				step(0)
			}
			// It runs at its own speed again once it has caught up.
			assert.Equal(t, now.Add(anchorEvery), w.at(anchorEvery))
		})
	}
}

// The wall clock counts here: both readings also have a monotonic part, which no
// correction moves.
func TestSystemClockSeesSmallCorrection(t *testing.T) {
	anchor := time.Now()
	anchor = anchor.Add(time.Second/2 - time.Duration(anchor.Nanosecond()))
	w := wall{anchor: anchor}
	now := anchor.Add(anchorEvery)
	shiftWall(t, &now, -8*ms) // it was set back
	w.reanchor(now, w.mono+anchorEvery)
	assert.Equal(t, 8*ms, w.at(0).Round(0).Sub(now.Round(0)))
	assert.Equal(t, now.Add(32*ms), w.at(32*ms))
}

func TestSystemClockShowsStepLargerThanSlew(t *testing.T) {
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	w := wall{anchor: start}
	now := start.Add(anchorEvery - maxSlew - 1)
	w.reanchor(now, w.mono+anchorEvery)
	assert.Equal(t, now, w.at(0))
}

func TestClockIsSafeForConcurrentUse(t *testing.T) {
	for _, c := range []Clock{SystemClock(), MonotonicClock()} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				last := c.Now()
				for range 1000 {
					now := c.Now()
					assert.False(t, now.Before(last))
					last = now
				}
			})
		}
		wg.Wait()
	}
}
