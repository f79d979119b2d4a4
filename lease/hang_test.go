//go:build go1.25

package lease

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// stuckDisk is a disk that does not answer one kind of request until end is called. It must be made
// inside the bubble.
type stuckDisk struct {
	mu   sync.Mutex
	what string // the request that hangs
	at   string // the name of its file
	free chan struct{}
	n    int // how many wait
}

func (s *stuckDisk) hook(what, path string) {
	s.mu.Lock()
	if what != s.what || filepath.Base(path) != s.at {
		s.mu.Unlock()
		return
	}
	s.n++
	free := s.free
	s.mu.Unlock()
	<-free
}

func (s *stuckDisk) begin(what, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what, s.at, s.free, s.n = what, at, make(chan struct{}), 0
}

func (s *stuckDisk) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = ""
	close(s.free)
}

func (s *stuckDisk) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// says checks that an error names the request that hangs, and its file.
func says(t *testing.T, err error, what, name string) {
	t.Helper()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	file := new(FileError)
	require.ErrorAs(t, err, &file)
	require.Equal(t, name, filepath.Base(file.Path))
	require.ErrorContains(t, err, what+": ")
}

func TestAcquireReturnsInTimeIfTheFileSystemHangs(t *testing.T) {
	for _, c := range []struct{ what, at string }{
		{"stat", "leases"},
		{"read", "store"},
		{"lock", "0~lock"},
		{"create", "0~new"},
		{"write", "0~new"},
		{"sync", "0~new"},
		{"rename", "0"},
		{"sync directory", "worker"},
	} {
		inBubble(t, c.what+" "+c.at, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "leases")
			disk := new(stuckDisk)
			s := HookedFile(dir, disk.hook)
			disk.begin(c.what, c.at)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			begun := time.Now()
			_, err := Acquire(ctx, s, &Options{Layout: fleet, Count: 1, Clock: clockAt(0), NewStore: true})
			says(t, err, c.what, c.at)
			assert.LessOrEqual(t, time.Since(begun), 2*time.Second+span/10, "it tries to give the worker ID back")
			disk.end()
			time.Sleep(time.Minute) // until all requests have ended
		})
	}
}

// If a renewal hangs, Stats says what hangs as soon as the renewal times out. Later renewals wait
// for the same request. When the file system answers, the lease renews again.
func TestStatsShowAHangingRenewal(t *testing.T) {
	for _, c := range []struct{ what, at string }{
		{"read", "0"},
		{"lock", "0~lock"},
		{"sync", "0~new"},
		{"rename", "0"},
		{"sync directory", "worker"},
	} {
		inBubble(t, c.what+" "+c.at, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "leases")
			disk := new(stuckDisk)
			h := mustAcquire(t, HookedFile(dir, disk.hook), plain, clockAt(0))
			h.next()
			for range 3 {
				disk.begin(c.what, c.at)
				before := h.Stats().Failures
				time.Sleep(2 * span / 3) // a renewal, and its time-out
				require.Greater(t, h.Stats().Failures, before)
				says(t, h.Stats().LastError, c.what, c.at)
				time.Sleep(10 * span)
				synctest.Wait()
				// One is of a save, and one of a load.
				assert.LessOrEqual(t, disk.waiting(), 2, "a request that hangs is not made again and again")
				disk.end()
				time.Sleep(span)
				require.NoError(t, h.Stats().LastError)
				require.NoError(t, h.Err())
				h.next()
			}
		})
	}
}

// If the caller of a save gives up, the save may still happen later. It holds the lock and compares
// the version under it, so it replaces no newer record.
func TestAbandonedSaveReplacesNoNewerRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		disk := new(stuckDisk)
		s, other := HookedFile(dir, disk.hook), File(dir)
		one, err := s.Put(t.Context(), "worker/0", "", []byte("one"))
		require.NoError(t, err)
		for _, at := range []string{"read 0", "rename 0"} {
			what, name, _ := strings.Cut(at, " ")
			disk.begin(what, name)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = s.Put(ctx, "worker/0", one.Version, []byte("a"))
			cancel()
			says(t, err, what, name)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = other.Put(short, "worker/0", one.Version, []byte("b"))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, "it has the lock")
			disk.end()
			time.Sleep(time.Second)
			is, err := other.Get(t.Context(), "worker/0")
			require.NoError(t, err)
			want := "one" // the Put did nothing
			if what == "rename" {
				want = "a" // the Put was under way
			}
			require.Equal(t, want, string(is.Value))
			one, err = other.Put(t.Context(), "worker/0", is.Version, []byte("one"))
			require.NoError(t, err, "the lock is free")
		}
	})
}

// answersAfter is a store that answers each request so late.
func answersAfter(d time.Duration) fault {
	return func(ctx context.Context, q *query, next asks) error {
		if err := machine.Sleep(ctx, d); err != nil {
			return err
		}
		return next(ctx, q)
	}
}

// A store that answers each request within a fifth of a window is enough for whatever takes
// several requests: an outage, a start, and a change of the clock sequence.
func TestStoreThatAnswersLateStrandsNobody(t *testing.T) {
	for _, each := range []time.Duration{100 * ms, 400 * ms, span / 5} {
		withEngine(t, func(t *testing.T, m *memory) {
			h := mustAcquire(t, m, both, clockAt(0))
			m.mark(t)
			m.becomes(answersAfter(each))
			calm := func(h *holder) {
				t.Helper()
				for range 60 {
					time.Sleep(span / 20)
					h.next()
				}
			}
			calm(h)
			m.becomes(down)
			time.Sleep(2 * span)
			m.becomes(answersAfter(each))
			time.Sleep(3 * span)
			calm(h)
			calm(mustAcquire(t, m, both, clockAt(0), named("b")))
			h.c.set(-ms)
			_, err := h.g.NextIDContext(t.Context())
			require.NoError(t, err)
			h.c.set(-span / 2)
			h.next()
			require.Equal(t, 1, h.Grant().ClockSeq)
			m.becomes()
		})
	}
}

// A start ends while it waits. Its error says what for wherever the time ends, and that it has
// ended, also if the request that was under way fails with an error of its own.
func TestStartThatEndsWithinARequestSaysWhatItWaitsFor(t *testing.T) {
	fails := errors.New("no space left on device")
	for _, waits := range []error{ErrWiped, ErrExhausted, fails} {
		for _, key := range []string{"get", "list", "put"} {
			for _, says := range []error{context.DeadlineExceeded, fails} {
				if waits == ErrExhausted && key == "put" { // it saves nothing
					continue
				}
				withMemory(t, func(t *testing.T, m *memory) {
					if waits != ErrWiped {
						m.occupy(t, fleet, func(worker int) bool { return worker > 0 || waits == ErrExhausted })
					}
					begun := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					m.becomes(func(asked context.Context, q *query, next asks) error {
						switch {
						case ctx.Err() != nil: // what was taken is given back
						case time.Since(begun) > 19*time.Second && q.do == key:
							<-ctx.Done()
							return says
						case waits == fails && q.do == "put":
							return fails
						}
						return next(asked, q)
					})
					_, err := Acquire(ctx, m, &Options{Layout: fleet, Owner: "a", Window: MaxWindow, Clock: clockAt(0)})
					require.ErrorIs(t, err, waits, "%s ends with %v", key, says)
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s ends with %v", key, says)
					time.Sleep(2 * MaxWindow) // until it is
				})
			}
		}
	}
}

// A holder whose store is slow puts back what the store lost, and its IDs go on: the bound moves
// first, and the time that this takes does not delay the next renewal.
func TestHealingASlowStoreHoldsUpNoIDs(t *testing.T) {
	for since := range 10 {
		withMemory(t, func(t *testing.T, m *memory) {
			h := mustAcquire(t, m, plain, clockAt(0), func(o *Options) { o.Window = 30 * time.Second })
			m.becomes(answersAfter(2 * time.Second))
			time.Sleep(time.Minute + time.Duration(since)*time.Second)
			m.set(func() { clear(m.entries) })
			for range 3000 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
				_, err := h.g.NextIDContext(ctx)
				require.NoError(t, err)
				cancel()
				time.Sleep(100 * ms)
			}
			require.EqualValues(t, 1, h.Stats().Restored)
			require.Zero(t, h.Stats().Replacements)
			d, err := book.GetDoor(m.line())
			require.NoError(t, err)
			require.True(t, d.Open)
		})
	}
}
