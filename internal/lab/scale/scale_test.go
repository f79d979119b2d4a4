//go:build go1.25

// Package scale measures what a fleet asks of its store, with the real lease code in
// fake time. docs/scale.md has the figures of the full run:
//
//	SNOWFLAKE_FULL=1 go test -v ./internal/lab/scale
package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

const window = 3 * time.Second

var processes = depth.Of(64, 512) // 512 are in a shard of 1,024 worker IDs

// server is a store that answers after 1 to 3 ms and counts the requests.
type server struct {
	leasetest.Memory
	mu      sync.Mutex
	refuses bool
	hangs   bool

	asked             []time.Time
	reads, read, puts int // requests that read, the entries that they found, and Puts
}

func newServer() *server {
	s := &server{Memory: leasetest.Memory{Clock: snowflake.ClockFunc(time.Now)}}
	s.Before = s.reach
	return s
}

func (s *server) reach(ctx context.Context, request, _ string) error {
	time.Sleep(time.Millisecond + rand.N(2*time.Millisecond))
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	switch request {
	case "Get", "List":
		s.reads++
	case "Put", "Delete":
		s.puts++
	}
	refuses, hangs := s.refuses, s.hangs
	s.mu.Unlock()
	switch {
	case refuses:
		return errors.New("connection refused")
	case hangs:
		<-ctx.Done()
	}
	return nil
}

func (s *server) Get(ctx context.Context, key string) (lease.Entry, error) {
	e, err := s.Memory.Get(ctx, key)
	s.found(min(len(e.Version), 1))
	return e, err
}

func (s *server) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	all, err := s.Memory.List(ctx, prefix)
	s.found(len(all))
	return all, err
}

// found counts entries that were read.
func (s *server) found(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += n
}

// set makes the server refuse, hang or work.
func (s *server) set(refuses, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses, s.hangs = refuses, hangs
}

// start starts all processes at once, and returns their leases and how long each took.
func start(t *testing.T, s *server, workers int, name string) (leases []*lease.Lease, took []time.Duration) {
	layout := snowflake.DefaultLayout()
	layout.Epoch = snowflake.UnixEpoch // synctest begins in 2000
	leases, took = make([]*lease.Lease, processes), make([]time.Duration, processes)
	errs := make([]error, processes)
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range leases {
		wg.Go(func() {
			o := &lease.Options{
				Layout:   layout,
				Window:   window,
				Count:    workers,
				Owner:    fmt.Sprint(name, "-", i),
				NewStore: true,
				Logger:   slog.New(slog.DiscardHandler),
			}
			if leases[i], errs[i] = lease.Acquire(t.Context(), s, o); errs[i] == nil {
				_, errs[i] = snowflake.NewLeased(leases[i], nil)
			}
			took[i] = time.Since(begun)
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	slices.Sort(took)
	return leases, took
}

// end ends all leases. If die is true, the server refuses the releases, so the records stay held.
func end(s *server, leases []*lease.Lease, die bool) {
	s.set(die, false)
	var wg sync.WaitGroup
	for _, l := range leases {
		wg.Go(func() { _ = l.Release(context.Background()) })
	}
	wg.Wait()
	s.set(false, false)
}

func TestCrowdThatStartsAtOnceAsksItsStoreOnlyAFewTimes(t *testing.T) {
	n := processes
	for _, test := range []struct {
		how           string
		workers       int
		before, after string // the owners' names
		die           bool
		most          int // reads of a process
	}{
		{"the first start ever", 2 * n, "", "a", false, 20},
		{"released, the same owners", 2 * n, "a", "a", false, 20},
		{"released, other owners", 2 * n, "a", "b", false, 20},
		{"killed, twice as many worker IDs", 2 * n, "a", "a", true, 40},
		{"killed, an eighth more worker IDs", n + n/8, "a", "a", true, 200}, // waits for a window
	} {
		t.Run(test.how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				if test.before != "" {
					leases, _ := start(t, s, test.workers, test.before)
					end(s, leases, test.die)
				}
				s.reads, s.read, s.puts = 0, 0, 0
				leases, took := start(t, s, test.workers, test.after)
				t.Logf("a process: %.1f reads, %.1f Puts, %d entries read; median %v, last %v", float64(s.reads)/float64(n),
					float64(s.puts)/float64(n), s.read/n, took[n/2].Round(time.Millisecond), took[n-1].Round(time.Millisecond))
				require.Less(t, s.reads, test.most*n)
				require.Less(t, took[n-1], 2*window)
				end(s, leases, false)
				time.Sleep(window) // leases give back what they took
			})
		})
	}
}

func TestHoldersIssueAgainWithinAWindowOfAnOutageWithoutAStorm(t *testing.T) {
	for name, refuses := range map[string]bool{"refuses": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				leases, _ := start(t, s, 2*processes, "a")
				time.Sleep(20 * window)
				gone := time.Now()
				s.log(t, "before", gone.Add(-10*window), gone)
				s.set(refuses, !refuses)
				var left []time.Duration
				for _, l := range leases {
					left = append(left, l.Stats().Bound.Sub(gone))
				}
				slices.Sort(left)
				t.Log("left of the windows:", quantiles(left))
				require.Greater(t, left[0], window/2)
				time.Sleep(10 * window)

				back := time.Now()
				s.log(t, "while it is away", gone.Add(2*window), back)
				s.set(false, false)
				again := make([]time.Duration, len(leases))
				for range 99 {
					time.Sleep(window / 100)
					for i, l := range leases {
						if again[i] == 0 && l.Stats().Renewed.After(back) {
							again[i] = time.Since(back)
						}
					}
				}
				require.NotContains(t, again, time.Duration(0), "all renewed within a window")
				slices.Sort(again)
				t.Log("issuing again after:", quantiles(again))
				time.Sleep(window - time.Since(back))
				s.log(t, "in the window after", back, back.Add(window))
				for _, l := range leases {
					require.NoError(t, l.Err())
				}
				end(s, leases, false)
				time.Sleep(window) // leases give back what they took
			})
		})
	}
}

// log prints how often the server was asked.
func (s *server) log(t *testing.T, when string, from, to time.Time) {
	const slice = window / 30
	counts, sum := make([]int, to.Sub(from)/slice+1), 0
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.asked {
		if !at.Before(from) && at.Before(to) {
			counts[at.Sub(from)/slice]++
			sum++
		}
	}
	n := float64(processes)
	t.Logf("%s: %.2f requests a holder and window; in a 30th of a window by at most %.1f%% of the holders",
		when, float64(sum)/n*float64(window)/float64(to.Sub(from)), 100*float64(slices.Max(counts))/n)
}

// quantiles describes sorted times.
func quantiles(all []time.Duration) string {
	of := func(d time.Duration) float64 { return float64(d) / float64(window) }
	return fmt.Sprintf("the first %.2f, half %.2f, the last %.2f of a window", of(all[0]), of(all[len(all)/2]), of(all[len(all)-1]))
}
