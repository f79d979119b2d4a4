//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// The context bounds Acquire only. The lease lives on after cancel.
func TestContextEndsAcquireButNotTheLease(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		l, err := Acquire(ctx, m, &Options{Layout: plain, Clock: clockAt(0), NewStore: true})
		require.NoError(t, err)
		cancel()
		g, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		for range 100 {
			time.Sleep(time.Second)
			_, err := g.NextID()
			require.NoError(t, err)
		}
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
		saves := m.saved()
		time.Sleep(time.Minute)
		assert.Equal(t, saves, m.saved())
		// synctest checks that no goroutine is left.
	})
}

// stopRenewing ends a lease as a crash does.
func stopRenewing(l *Lease) {
	l.cancel()
	<-l.ended
}

// Users have no use for what only the generator calls.
func TestLeaseHidesWhatOnlyItsGeneratorUses(t *testing.T) {
	of := reflect.TypeFor[*Lease]()
	var methods, fields []string
	for i := range of.NumMethod() {
		methods = append(methods, of.Method(i).Name)
	}
	for _, f := range reflect.VisibleFields(of.Elem()) {
		if f.IsExported() {
			fields = append(fields, f.Name)
		}
	}
	assert.Equal(t, []string{"AcceptLeap", "Clock", "Done", "Err", "Grant", "Hold", "Layout", "Ready", "Release", "Stats", "Worker"}, methods)
	assert.Empty(t, fields)
}

func TestLeaseServesOneGeneratorOfItsLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustAcquire(t, newMemory(), plain, clockAt(0))
		assert.Equal(t, plain, h.g.Layout(), "NewLeased takes the lease's layout")
		_, err := snowflake.NewLeased(h, nil)
		assert.ErrorIs(t, err, ErrInUse)
		_, err = snowflake.NewLeased(h, &snowflake.Options{Layout: seqs})
		assert.ErrorIs(t, err, ErrLayout)
		require.NoError(t, h.Release(t.Context()))
		_, err = snowflake.NewLeased(h, nil)
		assert.ErrorIs(t, err, ErrReleased)
	})
}

func TestAcquireRefusesOptionsOutOfRange(t *testing.T) {
	for name, o := range map[string]Options{
		"range beyond layout": {Layout: fleet, Count: 257},
		"range past the last": {Layout: fleet, First: 255, Count: 2},
		"range huge":          {Layout: fleet, First: 1, Count: math.MaxInt},
		"first beyond layout": {Layout: fleet, First: 256},
		"range negative":      {Layout: fleet, First: -1},
		"range empty":         {Layout: fleet, First: 2, Count: -1},
		"history":             {Layout: fleet, History: -1},
		"window negative":     {Layout: fleet, Window: -1},
		"window short":        {Layout: fleet, Window: ms - 1},
		"window under a tick": {Layout: snowflake.JSSafeLayout(), Window: time.Second - 1},
		"max leap":            {Layout: fleet, MaxLeap: -1},
		"floor negative":      {Layout: fleet, FloorEvery: -1},
		"floor too often":     {Layout: fleet, FloorEvery: ms - 1},
		"floor in a tick":     {Layout: snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: 10 * ms, TimeBits: 41, SequenceBits: 4}, FloorEvery: 9 * ms},
		"floor too seldom":    {Layout: fleet, FloorEvery: ms + 1, Window: 3 * ms},
		"reuse":               {Layout: fleet, Reuse: 3},
		"copy for any owner":  {Layout: fleet, LocalCopy: t.TempDir()},
		"copy used once":      {Layout: fleet, LocalCopy: t.TempDir(), Reuse: ReuseOnce},
	} {
		_, err := Acquire(t.Context(), newMemory(), &o)
		assert.ErrorIs(t, err, ErrInvalidOptions, name)
	}
	for _, store := range []Store{nil, File("")} {
		_, err := Acquire(t.Context(), store, nil)
		assert.ErrorIs(t, err, ErrInvalidOptions)
	}
	_, err := Acquire(t.Context(), newMemory(), &Options{Layout: snowflake.Layout{Unit: ms}})
	assert.ErrorIs(t, err, snowflake.ErrInvalidLayout)
}

func TestCloneIsRefusedAtItsNextRenewal(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		a := mustAcquire(t, m, fleet, clockAt(0), stops)
		time.Sleep(2*span + 123*ms)
		b := mustAcquire(t, m, fleet, clockAt(0), stops)
		h := <-a.slot
		twin := *h // as if the machine had been cloned
		a.give(h)
		<-b.slot
		b.grantWindow(&twin)
		b.give(&twin)
		time.Sleep(span)
		alive, dead := a, b
		if a.Err() != nil {
			alive, dead = b, a
		}
		require.ErrorIs(t, dead.Err(), ErrLost)
		time.Sleep(2 * span)
		require.NoError(t, alive.Err())
		alive.next()
		dead.refused(snowflake.ErrLeaseExpired)
	})
}

func TestFailedAcquireDoesNotMoveTheBound(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		require.NoError(t, h.Release(t.Context()))
		bound := m.record(0).Bound()
		stopped := time.Now().Add(-time.Second)
		for range 3 {
			_, err := Acquire(t.Context(), m, &Options{Layout: plain, Clock: snowflake.ClockFunc(func() time.Time { return stopped })})
			require.ErrorIs(t, err, snowflake.ErrClockBackward)
			assert.Equal(t, bound, m.record(0).Bound())
			assert.Equal(t, StateFree, m.record(0).State)
		}
	})
}

func TestNoBumpAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustAcquire(t, newMemory(), seqs, clockAt(0))
		require.NoError(t, h.Release(t.Context()))
		assert.ErrorIs(t, served{h.Lease}.Bump(t.Context(), h.Grant(), time.Now().Add(-time.Hour)), ErrReleased)
	})
}

// patient is a store with another default window.
type patient struct {
	*memory
	window time.Duration
}

func (p patient) DefaultWindow() time.Duration { return p.window }

func TestStoreSetsDefaultWindow(t *testing.T) {
	slow := layouts.Sonyflake()
	slow.Unit = time.Minute
	for _, test := range []struct {
		store, option time.Duration
		layout        snowflake.Layout
		want          time.Duration
	}{
		{store: 0, want: 3 * time.Second},
		{store: -1, want: 3 * time.Second},
		{store: 100 * time.Second, want: 100 * time.Second},
		{store: time.Second, want: time.Second},
		{store: 100 * time.Second, option: 5 * time.Second, want: 5 * time.Second},
		{store: time.Second, layout: slow, want: 3 * time.Minute},
		{store: 2 * time.Minute, layout: slow, want: 3 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, err := Acquire(t.Context(), patient{newMemory(), test.store},
				&Options{Window: test.option, Layout: test.layout, NewStore: true})
			require.NoError(t, err)
			defer stopRenewing(l)
			require.Equal(t, test.want, l.o.Window, "%+v", test)
		})
	}
}

// Whatever fault the store has, IDs are issued again when the fault is over, also if the worker ID
// is to be replaced meanwhile.
func TestHolderContinuesWhenTheFaultIsOver(t *testing.T) {
	for name, fault := range map[string]fault{
		"down": down, "hanging": hangs, "bad": bad, "answers lost": silent,
		"saves hanging": slow(time.Hour), "saves slow": slow(span / 2), "saves too late": late(span),
	} {
		for _, lost := range []bool{false, true} {
			withMemory(t, func(t *testing.T, m *memory) {
				h := mustAcquire(t, m, fleet, clockAt(0))
				h.next()
				if lost {
					m.take(h.Worker(), "b")
				}
				time.Sleep(ms)
				m.becomes(fault)
				time.Sleep(3 * time.Minute)
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

// If borrowed ticks reach the window's end, the call waits for the regular renewal.
func TestBorrowingDoesNotHurryTheRenewal(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, plain, clockAt(0))
		g := h.Grant()
		saves, begun := m.saved(), time.Now()
		require.NoError(t, served{h.Lease}.Extend(t.Context(), g, h.c.Now()))
		assert.Equal(t, saves+1, m.saved())
		assert.GreaterOrEqual(t, time.Since(begun), span/3-span/24-ms)
		assert.True(t, h.Grant().To.After(g.To))

		m.becomes(down)
		g = h.Grant()
		require.Equal(t, errDown, served{h.Lease}.Extend(t.Context(), g, h.c.Now()))
		assert.WithinDuration(t, g.To, time.Now(), 0, "the clock has reached the end")
		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		require.ErrorIs(t, served{h.Lease}.Extend(ctx, g, g.To.Add(-time.Second)), context.DeadlineExceeded)
	})
}

// If the lease's clock is far behind the generator's reading, extend gives up after two renewals.
func TestExtendGivesUpIfTheClockIsBehind(t *testing.T) {
	withMemory(t, func(t *testing.T, m *memory) {
		h := mustAcquire(t, m, plain, clockAt(0))
		h.c.step(-time.Hour)
		saves := m.saved()
		require.ErrorIs(t, served{h.Lease}.Extend(t.Context(), h.Grant(), h.Grant().To), snowflake.ErrClockBackward)
		assert.Equal(t, saves+2, m.saved())
	})
}

func TestDurationsInJSONLogsAreReadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := mustAcquire(t, newMemory(), plain, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		assert.Contains(t, log.String(), `"window":"3s"`)
		require.NoError(t, h.Release(t.Context()))
	})
}

// warnings counts the lines of a log with a text.
type warnings struct {
	text  string
	lines atomic.Int32
}

func (w *warnings) Write(line []byte) (int, error) {
	w.lines.Add(int32(bytes.Count(line, []byte(w.text))))
	return len(line), nil
}

func TestLayoutThatRunsOutIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := warnings{text: `WARN msg="lease: the layout will run out of time"`}
		old := plain
		old.Epoch = snowflake.Epoch(time.Now().Add(time.Hour + 365*24*time.Hour - 1<<41*ms).UnixMilli())
		mustAcquire(t, newMemory(), old, clockAt(0), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).next()
		for _, told := range []int32{0, 1, 1} {
			time.Sleep(40 * time.Minute)
			assert.Equal(t, told, log.lines.Load())
		}
	})
}
