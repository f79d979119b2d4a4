package hostlease_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/hostlease"
)

// fleet has two blocks of four worker IDs. Its epoch is early, because synctest begins in 2000.
var fleet = hostlease.Fleet{HostBits: 1, Layout: snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Millisecond, TimeBits: 41, DatacenterBits: 2, WorkerBits: 3, SequenceBits: 2}}

var quiet = slog.New(slog.DiscardHandler)

const window = 20 * time.Second

func TestMain(m *testing.M) {
	depth.TempDirInMemory()
	m.Run()
}

// host is a host with a clock that may be wrong, and a network that may be cut.
type host struct {
	*link.Link // to the fleet's store
	dir        string
	vmclock    string // Options.VMClock
	ahead      atomic.Int64
}

func newHost(t *testing.T, store lease.Store) *host {
	return &host{Link: link.To(store), dir: t.TempDir()}
}

// clock is a host's clock.
type clock struct{ *host }

func (c clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// keep starts the host's keeper, and returns a function that ends it.
func (h *host) keep(t *testing.T, count int) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- fleet.Keep(ctx, h, h.dir, &lease.Options{Owner: h.dir, Window: window, Count: count, Clock: clock{h}, NewStore: true, Logger: quiet, VMClock: h.vmclock})
	}()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// process starts a process of the host, with one of so many worker IDs of its block.
func (h *host) process(t *testing.T, count int) (*hostlease.Lease, *snowflake.Generator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*window)
	defer cancel()
	l, err := fleet.Acquire(ctx, h.dir, &lease.Options{Window: window / 2, Count: count, Clock: clock{h}, Logger: quiet, VMClock: h.vmclock})
	require.NoError(t, err)
	g, err := snowflake.NewLeased(l, &snowflake.Options{Datacenter: 3})
	require.NoError(t, err)
	return l, g
}

// issued has all IDs.
type issued map[snowflake.ID]bool

// run lets the generators issue IDs for a time. It returns how many IDs each issued, and its last error.
func (s issued) run(t *testing.T, d time.Duration, gens ...*snowflake.Generator) (n []int, errs []error) {
	t.Helper()
	n, errs = make([]int, len(gens)), make([]error, len(gens))
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(97 * time.Millisecond) {
		for i, g := range gens {
			var id snowflake.ID
			if id, errs[i] = g.NextID(); errs[i] == nil {
				require.False(t, s[id], "%v came twice", g.Decode(id))
				s[id] = true
				n[i]++
			}
		}
	}
	return n, errs
}

func TestProcessesOfHostsIssueTheirOwnIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := lease.File(t.TempDir()), issued{}
		a, b := newHost(t, store), newHost(t, store)
		defer a.keep(t, 0)()
		defer b.keep(t, 0)()
		var gens []*snowflake.Generator
		workers := map[int]bool{}
		for _, h := range []*host{a, b} {
			for range 4 {
				l, g := h.process(t, 0)
				defer l.Release(context.Background())
				workers[l.Worker()] = true
				gens = append(gens, g)
			}
		}
		assert.Len(t, workers, 8)
		n, errs := ids.run(t, 5*window, gens...)
		for i := range n {
			require.NoError(t, errs[i])
			assert.Greater(t, n[i], 900)
		}
		for id := range ids {
			assert.Equal(t, 3, gens[0].Decode(id).Datacenter)
		}
		for i, h := range []*host{a, a, a, a, b, b, b, b} {
			id, err := gens[i].NextID()
			require.NoError(t, err)
			holding, err := lease.Whois(t.Context(), store, id)
			require.NoError(t, err)
			assert.Equal(t, h.dir, holding.Owner)
			workers, err := hostlease.Workers(t.Context(), h.dir)
			require.NoError(t, err)
			holding, err = lease.Whois(t.Context(), workers, id)
			require.NoError(t, err)
			assert.Equal(t, gens[i].Worker()&3, holding.Worker)
		}
	})
}

// A keeper that is cut off loses its block to another host, when its window has ended. Its processes issue IDs until then,
// and the processes of the other host from then on, also if their clock is set back after their keeper has begun.
func TestBlockGoesToAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := lease.File(t.TempDir()), issued{}
		a, b := newHost(t, store), newHost(t, store)
		defer a.keep(t, 1)()
		la, ga := a.process(t, 1)
		defer la.Release(context.Background())
		ids.run(t, window, ga)
		a.Cut(true)
		n, errs := ids.run(t, 3*window, ga)
		require.ErrorIs(t, errs[0], snowflake.ErrLeaseExpired)
		require.ErrorIs(t, errs[0], hostlease.ErrNoBlock)
		assert.Greater(t, n[0], 100)

		defer b.keep(t, 1)()
		time.Sleep(2 * window) // the store has no clock, so the keeper watches the block for a window first
		b.ahead.Store(int64(-5 * window / 2))
		last := slices.Max(slices.Collect(maps.Keys(ids)))
		lb, gb := b.process(t, 1)
		defer lb.Release(context.Background())
		n, errs = ids.run(t, window/4, ga, gb)
		require.ErrorIs(t, errs[1], snowflake.ErrClockBackward)
		assert.Equal(t, []int{0, 0}, n)
		b.ahead.Store(0)
		id, err := gb.NextID()
		require.NoError(t, err)
		assert.Greater(t, id, last)
		n, errs = ids.run(t, 2*window, ga, gb)
		require.NoError(t, errs[1])
		assert.Zero(t, n[0])
		assert.Greater(t, n[1], 200)
		assert.Equal(t, gb.Worker(), ga.Worker())
	})
}

// If a keeper ends and is started again, the processes go on, with the same block or, if another host has taken it
// meanwhile, with another one and greater IDs.
func TestKeeperIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ids := lease.File(t.TempDir()), issued{}
		a, b := newHost(t, store), newHost(t, store)
		end := a.keep(t, 1)
		l, g := a.process(t, 0)
		defer l.Release(context.Background())
		last, err := g.NextID()
		require.NoError(t, err)
		goesOn := func(block int) {
			t.Helper()
			_, errs := ids.run(t, 2*window, g)
			require.NoError(t, errs[0])
			id, err := g.NextID()
			require.NoError(t, err)
			require.Greater(t, id, last)
			assert.Equal(t, block, g.Worker()>>2)
			last = id
		}
		for range 3 {
			end()
			_, errs := ids.run(t, window/4, g)
			require.NoError(t, errs[0])
			end = a.keep(t, 1)
			goesOn(0)
		}
		end()
		_, errs := ids.run(t, 2*window, g)
		require.ErrorIs(t, errs[0], hostlease.ErrNoBlock)
		defer b.keep(t, 1)()
		time.Sleep(window)
		defer a.keep(t, 2)()
		time.Sleep(window)
		goesOn(1)
	})
}

// A host's directory is removed and made again, while its keeper runs or is started again, as systemd's RuntimeDirectory is. The
// processes of before issue IDs until their window ends, and the keeper takes another block for new processes.
func TestDirectoryIsRemoved(t *testing.T) {
	for name, stops := range map[string]bool{"while the keeper runs": false, "while the keeper is started again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, ids := newHost(t, lease.File(t.TempDir())), issued{}
				end := h.keep(t, 0)
				before, old := h.process(t, 1)
				defer before.Release(context.Background())
				ids.run(t, window/4, old)
				if stops {
					end()
				}
				require.NoError(t, os.RemoveAll(h.dir))
				require.NoError(t, os.Mkdir(h.dir, 0o755))
				if stops {
					end = h.keep(t, 0)
				}
				defer func() { end() }()
				_, errs := ids.run(t, window/4, old)
				require.NoError(t, errs[0])
				l, g := h.process(t, 1)
				defer l.Release(context.Background())
				assert.NotEqual(t, before.Worker(), l.Worker())
				n, errs := ids.run(t, 2*window, old, g)
				require.NoError(t, errs[1])
				assert.Greater(t, n[1], 400)
				require.ErrorIs(t, errs[0], lease.ErrLost)
				assert.ErrorContains(t, errs[0], "was removed")
				<-before.Done()
				assert.ErrorContains(t, before.Err(), "was removed")
				again, _ := h.process(t, 0)
				require.NoError(t, again.Release(t.Context()))
				assert.Equal(t, lease.ErrReleased, again.Err())
			})
		})
	}
}

// A process is ready as long as its Bound is after its clock's time.
func TestBoundIsOfTheBlockToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, lease.File(t.TempDir()))
		end := h.keep(t, 0)
		l, g := h.process(t, 0)
		defer l.Release(context.Background())
		assert.True(t, l.Stats().Bound.After(time.Now()))
		end()
		time.Sleep(2 * window)
		_, err := g.NextID()
		require.ErrorIs(t, err, hostlease.ErrNoBlock)
		assert.False(t, l.Stats().Bound.After(time.Now()))
	})
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, bits := range []uint8{0, 3, 4} {
		f := fleet
		f.HostBits = bits
		_, err := f.Acquire(t.Context(), dir, nil)
		require.ErrorIs(t, err, lease.ErrInvalidOptions)
		require.ErrorIs(t, f.Keep(t.Context(), lease.File(dir), dir, nil), lease.ErrInvalidOptions)
	}
	f := hostlease.Fleet{Layout: snowflake.ClockSeqLayout(), HostBits: 3}
	require.ErrorIs(t, f.Keep(t.Context(), lease.File(dir), dir, nil), lease.ErrInvalidOptions)
	f = hostlease.Fleet{Layout: snowflake.Layout{Unit: -1}, HostBits: 3}
	require.ErrorIs(t, f.Keep(t.Context(), lease.File(dir), dir, nil), snowflake.ErrInvalidLayout)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := fleet.Acquire(ctx, dir, nil)
	require.ErrorIs(t, err, hostlease.ErrNoBlock)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, lease.File(filepath.Join(dir, "fleet")))
		defer h.keep(t, 0)()
		l, err := fleet.Acquire(t.Context(), h.dir, &lease.Options{Logger: quiet})
		require.NoError(t, err)
		defer l.Release(context.Background())
		other := fleet.Layout
		other.SequenceBits++
		_, err = snowflake.NewLeased(l, &snowflake.Options{Layout: other})
		require.ErrorIs(t, err, lease.ErrLayout)
		f := hostlease.Fleet{Layout: fleet.Layout, HostBits: 2}
		_, err = f.Acquire(t.Context(), h.dir, nil)
		require.ErrorIs(t, err, lease.ErrLayout)
	})
}

// Three hosts with two blocks, whose keepers and processes end and start, whose clocks step, whose directories are removed, and
// whose network is cut, issue no ID twice. A tick is a second, so that a window which is granted twice shows.
func TestRandomFaults(t *testing.T) {
	f := hostlease.Fleet{HostBits: 1, Layout: snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Second, TimeBits: 41, WorkerBits: 2, SequenceBits: 2}}
	for seed := range depth.Of[uint64](4, 100) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			store, ids := lease.File(t.TempDir()), map[snowflake.ID]bool{}
			var hosts []*host
			ends, procs := make([]func(), 3), make([]*hostlease.Lease, 3)
			gens := make([]*snowflake.Generator, 3)
			for range ends {
				hosts = append(hosts, newHost(t, store))
			}
			impatient := func() context.Context {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				context.AfterFunc(ctx, cancel)
				return ctx
			}
			for range 300 {
				i := r.IntN(len(hosts))
				switch h := hosts[i]; r.IntN(13) {
				case 0, 1:
					if ends[i] == nil {
						ctx, cancel := context.WithCancel(context.Background())
						done := make(chan struct{})
						go func() {
							defer close(done)
							_ = f.Keep(ctx, h, h.dir, &lease.Options{Owner: h.dir, Window: window, Clock: clock{h}, NewStore: true, Logger: quiet})
						}()
						ends[i] = func() { cancel(); <-done }
					}
				case 2:
					if ends[i] != nil {
						ends[i]()
						ends[i] = nil
					}
				case 3, 4:
					if procs[i] == nil {
						if l, err := f.Acquire(impatient(), h.dir, &lease.Options{Window: window / 2, Clock: clock{h}, Logger: quiet}); err == nil {
							procs[i] = l
							gens[i], err = snowflake.NewLeased(l, &snowflake.Options{OnBackward: snowflake.FailPolicy()})
							require.NoError(t, err)
						}
					}
				case 5:
					if procs[i] != nil {
						_ = procs[i].Release(context.Background())
						procs[i], gens[i] = nil, nil
					}
				case 6:
					h.Cut(r.IntN(2) == 0)
				case 7:
					h.ahead.Store(r.Int64N(int64(window)) - int64(window/2))
				case 8:
					if err := os.Rename(h.dir, filepath.Join(t.TempDir(), "removed")); !errors.Is(err, fs.ErrNotExist) {
						require.NoError(t, err)
					}
				default:
					time.Sleep(time.Duration(r.Int64N(int64(window / 4))))
				}
				for i, g := range gens {
					for range 4 {
						if g == nil {
							break
						}
						id, err := g.NextIDContext(impatient())
						if err != nil {
							break
						}
						require.False(t, ids[id], "seed %d: host %d issued %v again", seed, i, g.Decode(id))
						ids[id] = true
					}
				}
			}
			for i := range hosts {
				hosts[i].Cut(false)
				if procs[i] != nil {
					_ = procs[i].Release(context.Background())
				}
				if ends[i] != nil {
					ends[i]()
				}
			}
			time.Sleep(2 * window) // leases give back what they took
			assert.NotEmpty(t, ids)
		})
	}
}
