package lease

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake"
)

// logged is a slog.Handler that keeps all log records.
type logged struct {
	mu      sync.Mutex
	records []slog.Record
	hook    func(message string) // if it is not nil, it is called with each message
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	l.records = append(l.records, r)
	l.mu.Unlock()
	if l.hook != nil {
		l.hook(r.Message)
	}
	return nil
}

func (l *logged) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.records)
}

// take returns the levels and messages that were logged since the last call of take.
func (l *logged) take() (told []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		told = append(told, r.Level.String()+" "+r.Message)
	}
	l.records = nil
	return told
}

// attr returns the value of key in the last record.
func (l *logged) attr(key string) (value any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[len(l.records)-1].Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			value = a.Value.Any()
		}
		return true
	})
	return value
}

func TestLeaseLogsItsLife(t *testing.T) {
	const long = 10 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Logger, o.MaxLeap = slog.New(log), time.Hour })
		assert.Equal(t, "a", log.attr("owner"))
		assert.Equal(t, []string{"INFO lease: worker ID acquired"}, log.take())
		for range 1000 {
			h.next()
			time.Sleep(long / 1000)
		}
		assert.Empty(t, log.take(), "nothing for an ID or a renewal")

		m.set(func() { m.down = true })
		for log.count() == 0 {
			time.Sleep(ms)
		}
		since := time.Since(h.Stats().Renewed)
		assert.GreaterOrEqual(t, since, span/2)
		assert.Less(t, since, span)
		assert.Equal(t, errDown, log.attr("error"))
		assert.Equal(t, []string{"WARN lease: renewals fail"}, log.take())
		time.Sleep(long)
		h.refused(errDown)
		ended := h.Grant().To
		assert.Equal(t, []string{"ERROR lease: no IDs are issued: the window has ended"}, log.take(), "once")
		m.set(func() { m.down = false })
		for log.count() < 2 {
			time.Sleep(ms)
		}
		_, after := log.last("INFO lease: IDs are issued again")
		assert.InDelta(t, h.c.Now().Sub(ended), after, float64(2*ms), "from the window's end, and not from when it was told")
		time.Sleep(long)
		_, after = log.last("INFO lease: renewals succeed again")
		assert.InDelta(t, long, after, float64(2*span))
		assert.Equal(t, []string{"INFO lease: renewals succeed again", "INFO lease: IDs are issued again"}, log.take())

		h.c.step(24 * time.Hour)
		time.Sleep(long)
		assert.Equal(t, []string{"WARN lease: the clock leapt forward", "ERROR lease: no IDs are issued: the window has ended"}, log.take())
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"INFO lease: the clock is trusted again", "INFO lease: IDs are issued again"}, log.take())

		h.c.step(-time.Minute)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"WARN lease: the clock stepped back"}, log.take())
		h.c.step(-time.Second)
		time.Sleep(10 * time.Second)
		assert.Empty(t, log.take(), "the clock is behind still")
		time.Sleep(long)
		assert.Equal(t, []string{"INFO lease: the clock has caught up"}, log.take())

		h.c.step(24 * time.Hour)
		time.Sleep(long)
		h.c.step(-24 * time.Hour)
		time.Sleep(long)
		assert.Equal(t, []string{"WARN lease: the clock leapt forward", "ERROR lease: no IDs are issued: the window has ended",
			"INFO lease: the clock is trusted again", "INFO lease: IDs are issued again"}, log.take())

		lost := h.Worker()
		m.take(lost, "b")
		time.Sleep(span)
		assert.EqualValues(t, lost, log.attr("instead_of"))
		assert.EqualValues(t, h.Worker(), log.attr("worker"))
		assert.Equal(t, []string{"WARN lease: worker ID lost", "INFO lease: worker ID replaced"}, log.take())
		time.Sleep(long)
		assert.Empty(t, log.take())

		assert.NoError(t, h.Release(t.Context()))
		assert.Nil(t, log.attr("free_from"), "no ID was issued")
		assert.Equal(t, []string{"INFO lease: worker ID released"}, log.take())
		assert.NoError(t, h.Release(t.Context()))
		assert.Empty(t, log.take())
	})
}

// If replacements fail for a long time, one message is logged for each cause: the other holder lives, and then the saves
// fail.
func TestFailingReplacementIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Logger = slog.New(log) })
		log.take()
		m.take(0, "b")
		m.set(func() { m.refuses = map[int]bool{0: true} })
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"WARN lease: worker ID lost", "WARN lease: the lost worker ID could not be replaced yet",
			"ERROR lease: no IDs are issued: the window has ended", "WARN lease: the lost worker ID could not be replaced yet"}, log.take())
		m.set(func() { m.refuses = nil })
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"INFO lease: worker ID replaced", "INFO lease: IDs are issued again"}, log.take())
		h.next()
	})
}

func TestLayoutThatRunsOutIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		old := plain
		old.Epoch = snowflake.Epoch(time.Now().Add(30 * 24 * time.Hour).Add(365 * 24 * time.Hour).Add(-1 << 41 * ms).UnixMilli())
		h := mustAcquire(t, newMemory(), old, clockAt(0), func(o *Options) { o.Logger, o.Window = slog.New(log), MaxWindow })
		h.next()
		assert.Equal(t, []string{"INFO lease: worker ID acquired"}, log.take())
		time.Sleep(29 * 24 * time.Hour)
		assert.Empty(t, log.take())
		time.Sleep(2 * 24 * time.Hour)
		assert.Equal(t, []string{"WARN lease: the layout will run out of time"}, log.take())
		time.Sleep(24 * time.Hour)
		assert.Empty(t, log.take())
	})
}

// If the clock leaps and then steps back to before the right time, the log says that it stepped back.
func TestStepBackAfterALeapIsLogged(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"soon": 10 * time.Second, "late": 30 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(logged)
				h := mustAcquire(t, newMemory(), plain, clockAt(0), func(o *Options) { o.Logger, o.MaxLeap = slog.New(log), time.Hour })
				h.next()
				log.take()
				h.c.step(24 * time.Hour)
				time.Sleep(lasts)
				assert.Equal(t, "WARN lease: the clock leapt forward", log.take()[0])
				h.c.step(-24*time.Hour - time.Minute)
				time.Sleep(2 * span)
				assert.Equal(t, []string{"WARN lease: the clock stepped back"}, log.take(), "and no IDs are issued yet")
				time.Sleep(time.Minute)
				assert.Equal(t, []string{"INFO lease: the clock has caught up"}, log.only("the clock"))
				h.next()
			})
		})
	}
}

// last returns the attribute after of the last such message, and whether there is one.
func (l *logged) last(message string) (told bool, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Level.String()+" "+r.Message == message {
			told = true
			r.Attrs(func(a slog.Attr) bool {
				if a.Key == "after" {
					after, _ = time.ParseDuration(a.Value.String())
				}
				return true
			})
		}
	}
	return told, after
}

// only returns what take does, but only messages that contain a text.
func (l *logged) only(text string) []string {
	return slices.DeleteFunc(l.take(), func(told string) bool { return !strings.Contains(told, text) })
}

// If the shared store is away while the local copy is used, one message is logged, and one when the store
// is back.
func TestOutageOfASharedStoreIsLoggedOnce(t *testing.T) {
	log := new(logged)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), reuse(ReuseKeep), func(o *Options) { o.Logger, o.LocalCopy = slog.New(log), dir })
		h.next()
		log.take()
		m.set(func() { m.down = true })
		time.Sleep(time.Minute)
		h.next()
		assert.Equal(t, []string{"WARN lease: the store is away, and the local copy is used"}, log.take())
		m.set(func() { m.down = false })
		time.Sleep(time.Minute)
		assert.Equal(t, 1, log.count())
		_, after := log.last("INFO lease: the store is back")
		assert.InDelta(t, time.Minute, after, float64(span))
		assert.Equal(t, []string{"INFO lease: the store is back"}, log.take())
		m.set(func() { m.down = true })
		time.Sleep(time.Minute)
		assert.Len(t, log.take(), 1)
		assert.NoError(t, h.Release(t.Context()))
		log.take()
		h = mustAcquire(t, m, plain, clockAt(0), reuse(ReuseKeep), func(o *Options) { o.Logger, o.LocalCopy = slog.New(log), dir })
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"INFO lease: worker ID acquired", "WARN lease: the store is away, and the local copy is used"}, log.take())
		h.next()
	})
}

// If the window has ended, one message says that no IDs are issued, and one says when they are issued
// again.
func TestEndOfAWindowIsLoggedOnce(t *testing.T) {
	for name, fault := range map[string]func(m *memory, h *holder, on bool){
		"down": func(m *memory, _ *holder, on bool) { m.set(func() { m.down = on }) },
		"slow": func(m *memory, _ *holder, on bool) {
			m.set(func() { m.slow = map[bool]time.Duration{true: time.Hour}[on] })
		},
		"leap": func(m *memory, h *holder, on bool) {
			h.c.step(map[bool]time.Duration{true: time.Hour, false: -time.Hour}[on])
		},
		"lost": func(m *memory, h *holder, on bool) {
			if on {
				m.take(0, "b")
			}
			m.set(func() { m.refuses = map[int]bool{0: on} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(logged)
				m := newMemory()
				h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Logger, o.MaxLeap = slog.New(log), time.Minute })
				h.next()
				log.take()
				fault(m, h, true)
				time.Sleep(40 * time.Second)
				const stopped, again = "ERROR lease: no IDs are issued: the window has ended", "INFO lease: IDs are issued again"
				assert.Equal(t, []string{stopped}, log.only("issued"), "once")
				fault(m, h, false)
				time.Sleep(40 * time.Second)
				told, after := log.last(again)
				assert.True(t, told)
				assert.InDelta(t, 40*time.Second, after, float64(3*span))
				assert.Equal(t, []string{again}, log.only("issued"))
				h.next()
				h.c.suspend(10 * time.Second)
				time.Sleep(span)
				assert.Empty(t, log.take(), "a suspension of the machine is no outage")
			})
		})
	}
}
