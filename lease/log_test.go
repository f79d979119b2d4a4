package lease

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake"
)

// logged is a slog.Handler that keeps what it is told.
type logged struct {
	mu      sync.Mutex
	records []slog.Record
	hook    func(message string) // is called with each, if it is not nil
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

// take returns what was told since the last time: the levels and messages.
func (l *logged) take() (told []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		told = append(told, r.Level.String()+" "+r.Message)
	}
	l.records = nil
	return told
}

// attr returns what the last record says of key.
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

func TestLog(t *testing.T) {
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
		assert.Empty(t, log.take(), "once")
		m.set(func() { m.down = false })
		time.Sleep(long)
		assert.Equal(t, []string{"INFO lease: renewals succeed again"}, log.take())

		h.c.step(24 * time.Hour)
		time.Sleep(long)
		assert.Equal(t, []string{"WARN lease: the clock leapt forward"}, log.take())
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"INFO lease: the clock is trusted again"}, log.take())

		h.c.step(-time.Minute)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"WARN lease: the clock stepped back"}, log.take())
		h.c.step(-time.Second)
		time.Sleep(10 * time.Second)
		assert.Empty(t, log.take(), "it is behind still")
		time.Sleep(long)
		assert.Equal(t, []string{"INFO lease: the clock has caught up"}, log.take())

		h.c.step(24 * time.Hour)
		time.Sleep(long)
		h.c.step(-24 * time.Hour)
		time.Sleep(long)
		assert.Equal(t, []string{"WARN lease: the clock leapt forward", "INFO lease: the clock is trusted again"}, log.take())

		m.take(0, "b")
		time.Sleep(span)
		assert.EqualValues(t, 0, log.attr("lost"))
		assert.Equal(t, []string{"WARN lease: worker ID lost", "INFO lease: worker ID replaced"}, log.take())
		time.Sleep(long)
		assert.Empty(t, log.take())

		assert.NoError(t, h.Release(t.Context()))
		assert.Equal(t, []string{"INFO lease: worker ID released"}, log.take())
		assert.NoError(t, h.Release(t.Context()))
		assert.Empty(t, log.take())
	})
}

// A replacement that fails for long is told once.
func TestLogOfAReplacementThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Logger = slog.New(log) })
		log.take()
		m.take(0, "b")
		m.set(func() { m.refuses = map[int]bool{0: true} })
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"WARN lease: worker ID lost", "WARN lease: the lost worker ID could not be replaced yet"}, log.take())
		m.set(func() { m.refuses = nil })
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"INFO lease: worker ID replaced"}, log.take())
		h.next()
	})
}

func TestLogOfALayoutThatRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		old := plain
		old.Epoch = snowflake.Epoch(time.Now().Add(30 * 24 * time.Hour).Add(365 * 24 * time.Hour).Add(-1 << 41 * ms).UnixMilli())
		h := mustAcquire(t, newMemory(), old, clockAt(0), func(o *Options) { o.Logger, o.Window = slog.New(log), time.Hour })
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
