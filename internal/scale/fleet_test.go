package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// server is a store in memory, a network away, that counts what it is asked for.
type server struct {
	mu      sync.Mutex
	records map[int]lease.Record
	away    string      // how it fails: "", "refuses" or "hangs"
	asked   []time.Time // when
	loads   int
	read    int // records
	saves   int
	first   map[int]time.Time // of each worker ID, when it was saved first since set
}

func newServer() *server {
	return &server{records: map[int]lease.Record{}, first: map[int]time.Time{}}
}

var errAway = errors.New("connection refused")

// reach is the way to the server: 1 to 3 ms.
func (s *server) reach(ctx context.Context) error {
	time.Sleep(time.Millisecond + rand.N(2*time.Millisecond))
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	away := s.away
	s.mu.Unlock()
	if away == "hangs" {
		<-ctx.Done()
		return ctx.Err()
	}
	if away != "" {
		return errAway
	}
	return ctx.Err()
}

func (s *server) Load(ctx context.Context) (lease.Snapshot, error) {
	snap, err := s.load(ctx, func(int) bool { return true })
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loads++
		s.read += len(snap.Records)
	}
	return snap, err
}

func (s *server) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return s.load(ctx, func(w int) bool { return w == worker })
}

func (s *server) load(ctx context.Context, wanted func(worker int) bool) (lease.Snapshot, error) {
	snap := lease.Snapshot{OwnClock: true}
	if err := s.reach(ctx); err != nil {
		return snap, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, r := range s.records {
		if wanted(w) {
			snap.Records = append(snap.Records, r)
		}
	}
	snap.Now = time.Now()
	return snap, nil
}

func (s *server) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := s.reach(ctx); err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.records[r.Worker].Version != r.Version-1 {
		return r, lease.ErrConflict
	}
	r.Renewed = time.Now()
	s.records[r.Worker] = r
	if s.first[r.Worker].IsZero() {
		s.first[r.Worker] = r.Renewed
	}
	return r, nil
}

// between returns how many requests came in each slice of a span of time.
func (s *server) between(from, to time.Time, slice time.Duration) (counts []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts = make([]int, (to.Sub(from)+slice-1)/slice)
	for _, at := range s.asked {
		if !at.Before(from) && at.Before(to) {
			counts[at.Sub(from)/slice]++
		}
	}
	return counts
}

func (s *server) set(away string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	clear(s.first)
}

// holder is a process with a lease.
type holder struct {
	*lease.Lease
	took time.Duration // to acquire
	kill func()
}

const window = 3 * time.Second

// processes is how many there are. docs/scale.md has the figures of 512: that many
// are in a shard of 1,024 worker IDs.
var processes = flag.Int("processes", 64, "how many processes to simulate")

// start starts n processes at once. Their owners are called by name and number.
func start(t *testing.T, s *server, n, workers int, name string) []holder {
	layout := snowflake.DefaultLayout()
	layout.Epoch = snowflake.UnixEpoch // synctest begins in 2000
	holders := make([]holder, n)
	var wg sync.WaitGroup
	for i := range holders {
		wg.Go(func() {
			network, store := link.To(s)
			begun := time.Now()
			o := &lease.Options{Layout: layout, Window: window, Count: workers, Owner: fmt.Sprint(name, "-", i), Logger: slog.New(slog.DiscardHandler)}
			l, err := lease.Acquire(t.Context(), store, o)
			if err != nil {
				t.Error(err)
				return
			}
			holders[i] = holder{l, time.Since(begun), func() {
				network.Cut(true)
				_ = l.Release(context.Background())
			}}
			t.Cleanup(holders[i].kill)
			_, err = snowflake.NewLeased(l, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return holders
}

func kill(holders []holder) {
	for _, h := range holders {
		h.kill()
		<-h.Done()
	}
}

func release(t *testing.T, holders []holder) {
	for _, h := range holders {
		require.NoError(t, h.Release(t.Context()))
	}
}

// TestRestartOfAll counts what Acquire asks of a store when all the processes of
// a shard start at the same instant.
func TestRestartOfAll(t *testing.T) {
	n := *processes
	for _, test := range []struct {
		how     string
		workers int
		name    string // of those that come after
		before  func(*testing.T, *server)
	}{
		{"the first start ever", 2 * n, "a", func(*testing.T, *server) {}},
		{"released, the same owners", 2 * n, "a", func(t *testing.T, s *server) {
			release(t, start(t, s, n, 2*n, "a"))
		}},
		{"released, other owners", 2 * n, "b", func(t *testing.T, s *server) {
			release(t, start(t, s, n, 2*n, "a"))
		}},
		{"killed, twice as many worker IDs", 2 * n, "a", func(t *testing.T, s *server) {
			kill(start(t, s, n, 2*n, "a"))
		}},
		{"killed, an eighth more worker IDs", n + n/8, "a", func(t *testing.T, s *server) {
			kill(start(t, s, n, n+n/8, "a"))
		}},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				test.before(t, s)
				s.loads, s.read, s.saves = 0, 0, 0
				holders := start(t, s, n, test.workers, test.name)
				var took []time.Duration
				workers := map[int]bool{}
				for _, h := range holders {
					took = append(took, h.took)
					workers[h.Worker()] = true
				}
				require.Len(t, workers, n)
				slices.Sort(took)
				s.mu.Lock()
				defer s.mu.Unlock()
				t.Logf("a process: %.1f loads, %.1f saves, %d records read; median %v, last %v",
					float64(s.loads)/float64(n), float64(s.saves)/float64(n), s.read/n, took[n/2].Round(time.Millisecond), took[n-1].Round(time.Millisecond))
				require.Less(t, s.loads, 10*n)
				require.Less(t, took[n-1], 2*window)
			})
		})
	}
}

// TestOutage lets a store go away for ten windows, and counts what its holders ask
// of it before, meanwhile and when it is back.
func TestOutage(t *testing.T) {
	n := *processes
	for _, away := range []string{"refuses", "hangs"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				holders := start(t, s, n, 2*n, "a")
				time.Sleep(20 * window)
				load := func(when string, from, to time.Time) {
					const slice = window / 30
					counts, sum := s.between(from, to, slice), 0
					for _, k := range counts {
						sum += k
					}
					t.Logf("%s: %.2f requests a holder and window; in a 30th of a window by at most %.1f%% of the holders",
						when, float64(sum)/float64(n)/of(to.Sub(from)), 100*float64(slices.Max(counts))/float64(n))
				}
				gone := time.Now()
				load("before", gone.Add(-10*window), gone)

				s.set(away)
				var left []time.Duration
				for _, h := range holders {
					left = append(left, h.Stats().Bound.Sub(gone))
				}
				t.Log("left of the windows then:", quantiles(left))
				require.Greater(t, slices.Min(left), window/2)
				time.Sleep(10 * window)
				back := time.Now()
				load("while it is away", gone.Add(2*window), back)

				s.set("")
				time.Sleep(3 * window)
				load("in the window after", back, back.Add(window))
				s.mu.Lock()
				first := maps.Clone(s.first)
				s.mu.Unlock()
				var renewed []time.Duration
				for _, h := range holders {
					require.NoError(t, h.Err())
					renewed = append(renewed, first[h.Worker()].Sub(back))
				}
				t.Log("issuing again after:", quantiles(renewed))
				require.Less(t, slices.Max(renewed), window)
				kill(holders)
			})
		})
	}
}

// of is d in windows.
func of(d time.Duration) float64 { return float64(d) / float64(window) }

func quantiles(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("the first %.2f, half %.2f, the last %.2f of a window", of(all[0]), of(all[len(all)/2]), of(all[len(all)-1]))
}
