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
