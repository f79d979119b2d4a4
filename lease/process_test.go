//go:build go1.25

package lease_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Tests with real processes. A child has childEnv in its environment. It reads its task from
// standard input, and writes the IDs that it issues to standard output. It ends if it gets no
// worker ID, if it loses its worker ID, or after one more line. If something happens that must not
// happen, it says so on standard error.

var (
	kills    = flag.Int("kills", depth.Of(60, 400), "how many children TestKilledProcessesRepeatNoID kills")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the tests that kill at random; 0: a new one")
	atOnce   = flag.Int("at-once", depth.Of(16, 64), "how many processes TestManyProcessesAtOnceGetDifferentWorkerIDs starts, up to 1,024")
)

const childEnv = "SNOWFLAKE_LEASE_CHILD"

// Layouts with few IDs in a tick, so that a long run fits into memory.
var (
	plain     = snowflake.Layout{Epoch: 1735689600000, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 5}
	sequenced = snowflake.Layout{
		Epoch:        1735689600000,
		Unit:         time.Millisecond,
		TimeBits:     41,
		ClockSeqBits: 3,
		WorkerBits:   7,
		SequenceBits: 5,
	}
)

// task is what a child is to do.
type task struct {
	Dir          string
	Layout       snowflake.Layout
	Owner        string
	First, Count int
	Window       time.Duration
	OnLoss       lease.OnLoss
	One          bool          // issue one ID
	Offset       time.Duration // of the child's clock from the host's
	Step         time.Duration // how far the clock is set forward or back
	StepAfter    time.Duration // this long after Acquire
}

func init() {
	if os.Getenv(childEnv) != "" {
		child()
		os.Exit(0)
	}
}

// child is the main function of a child.
func child() {
	in := bufio.NewScanner(os.Stdin)
	var k task
	if !in.Scan() {
		return // the test did not need this child
	}
	expect(json.Unmarshal(in.Bytes(), &k))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		if !in.Scan() {
			os.Exit(1) // the parent has ended
		}
		cancel()
	}()
	clock := snowflake.SystemClock()
	var acquired atomic.Pointer[time.Time]
	if k.Offset != 0 || k.Step != 0 {
		clock = snowflake.ClockFunc(func() time.Time {
			now := time.Now().Add(k.Offset)
			if at := acquired.Load(); at != nil && time.Since(*at) >= k.StepAfter {
				now = now.Add(k.Step)
			}
			return now
		})
	}
	l, err := lease.Acquire(ctx, lease.File(k.Dir), &lease.Options{
		Layout: k.Layout, Owner: k.Owner, First: k.First, Count: k.Count, Window: k.Window, OnLoss: k.OnLoss, Clock: clock,
	})
	now := time.Now()
	acquired.Store(&now)
	if expect(err, context.Canceled, snowflake.ErrClockBackward, lease.ErrExhausted); err != nil {
		return
	}
	opts := &snowflake.Options{}
	if k.Layout.ClockSeqBits > 0 {
		opts.OnBackward = snowflake.ClockSeqPolicy()
	}
	gen, err := snowflake.NewLeased(l, opts)
	expect(err, lease.ErrLost)
	issued := make(chan struct{})
	go func() {
		defer close(issued)
		k.issue(l, gen)
	}()
	select {
	case <-ctx.Done():
		// A disk may be slower than the window.
		expect(l.Release(context.Background()), lease.ErrLost, context.DeadlineExceeded)
	case <-l.Done():
		expect(l.Err(), lease.ErrLost)
	}
	<-issued
}

// issue issues IDs as fast as it can, until the lease has ended.
func (k task) issue(l *lease.Lease, gen *snowflake.Generator) {
	var buf []snowflake.ID
	for l.Err() == nil {
		id, err := gen.NextID()
		expect(err, snowflake.ErrLeaseExpired, snowflake.ErrClockBackward)
		if err == nil {
			buf = append(buf, id)
		}
		if len(buf) == 16 || k.One || err != nil {
			expect(servertest.WriteIDs(buf...))
			buf = buf[:0]
		}
		if err != nil {
			time.Sleep(200 * time.Microsecond)
		} else if k.One {
			<-l.Done()
		}
	}
	expect(servertest.WriteIDs(buf...))
}

// expect ends the child if an error is none of these.
func expect(err error, errs ...error) {
	if err != nil && !slices.ContainsFunc(errs, func(is error) bool { return errors.Is(err, is) }) {
		panic(err)
	}
}

// process is a child, as its parent sees it.
type process struct {
	*servertest.Child
	t     *testing.T
	ended chan struct{}
	ids   []snowflake.ID // read these only when it has ended
	said  string
}

// start starts a child, which waits for its task.
func start(t *testing.T) *process {
	t.Helper()
	p := &process{Child: servertest.StartChild(t, childEnv+"=1"), t: t, ended: make(chan struct{})}
	go func() {
		for line := range p.Lines {
			p.said += line
		}
		p.Wait()
		p.ids, _ = p.IDs()
		close(p.ended)
	}()
	return p
}

// begin gives the child its task.
func (p *process) begin(k task) *process {
	p.t.Helper()
	b, err := json.Marshal(k)
	require.NoError(p.t, err)
	require.NoError(p.t, p.Tell(string(b)))
	return p
}

// until waits until done is closed.
func (p *process) until(done <-chan struct{}) {
	p.t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute): // longer than any step takes
		require.FailNow(p.t, "the child hangs")
	}
}

// release makes the child release its lease and end, if it has not ended.
func (p *process) release() { _ = p.Tell("release") }

// end waits for the child's end. It must have said nothing.
func (p *process) end() {
	p.t.Helper()
	p.until(p.ended)
	require.Empty(p.t, p.said)
}

// kill kills the child if it has not ended.
func (p *process) kill() {
	p.t.Helper()
	_ = p.Process().Kill()
	p.end()
}

// live lets the child begin, and ends it at a random moment. Mostly it kills the child: after a
// while from the beginning or from the first ID, or while it releases. Sometimes the child may
// release.
func (p *process) live(k task, r *rand.Rand) {
	p.t.Helper()
	p.begin(k)
	age := 40 * time.Millisecond
	switch r.IntN(4) {
	case 0: // about as long as Acquire takes
		age = 8 * time.Millisecond
	case 1: // about as long as Acquire takes if it waits for the last holder's bound
		age += k.Window
	default:
		p.until(p.First)
	}
	time.Sleep(upTo(r, age))
	switch r.IntN(8) {
	case 0:
		p.release()
		p.end()
	case 1:
		p.release()
		time.Sleep(upTo(r, 5*time.Millisecond))
	}
	p.kill()
}

// nursery has a child ready. If a child is killed, the next one begins at once.
type nursery struct {
	t     *testing.T
	spare *process
}

func (n *nursery) take() *process {
	p := n.spare
	if p == nil {
		p = start(n.t)
	}
	n.spare = start(n.t)
	return p
}

// bounds returns the stored bounds by worker ID. The records must be readable after every crash.
func bounds(t *testing.T, dir string) map[int][]time.Time {
	t.Helper()
	all, err := lease.File(dir).List(t.Context(), "worker/")
	require.NoError(t, err)
	bounds := map[int][]time.Time{}
	for _, e := range all {
		var r struct {
			Worker int
			Bounds []time.Time
		}
		require.NoError(t, json.Unmarshal(e.Value, &r))
		bounds[r.Worker] = r.Bounds
	}
	return bounds
}

// seeded returns a source of randomness. It logs the seed, for -kill-seed.
func seeded(t *testing.T) *rand.Rand {
	seed := cmp.Or(*killSeed, rand.Uint64())
	t.Logf("-kill-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// between returns a positive or negative duration of 10^lo to 10^hi seconds. All magnitudes are
// equally likely.
func between(r *rand.Rand, lo, hi float64) time.Duration {
	d := time.Duration(math.Pow(10, lo+(hi-lo)*r.Float64()) * float64(time.Second))
	if r.IntN(2) == 0 {
		return -d
	}
	return d
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// In the last case there are more processes than worker IDs.
func TestKilledProcessesRepeatNoID(t *testing.T) {
	t.Parallel()
	window := 60 * time.Millisecond
	if runtime.GOOS == "windows" {
		window *= 10 // a save may take longer than 60 ms there
	}
	for _, test := range []struct {
		name      string
		share     int // of the kills, in percent
		processes int // at once
		layout    snowflake.Layout
		task      func(r *rand.Rand, i int) task
	}{
		{"many workers, clocks set by anything", 40, 1, plain, func(r *rand.Rand, i int) task {
			k := task{Owner: fmt.Sprint("owner", r.IntN(3)), First: 0, Count: 1024, Offset: between(r, -6, 3.3)}
			if r.IntN(4) == 0 {
				k.Step, k.StepAfter = between(r, -6, 0), upTo(r, 20*time.Millisecond)
			}
			return k
		}},
		{"one worker, clock sequences, clocks set by anything", 30, 1, sequenced, func(r *rand.Rand, i int) task {
			k := task{First: 5, Count: 1}
			// Time moves forward, so that the clock reaches bounds that a leap set.
			k.Offset = time.Duration(i)*20*time.Second + between(r, -6, 3)
			if r.IntN(4) > 0 {
				k.Step, k.StepAfter = -between(r, -3, 1).Abs(), upTo(r, 20*time.Millisecond)
			}
			return k
		}},
		{"many at once", 30, 5, plain, func(r *rand.Rand, i int) task {
			return task{
				First:  3,
				Count:  3,
				Owner:  fmt.Sprint("owner", i%5),
				OnLoss: lease.OnLoss(r.IntN(2)),
				Offset: between(r, -6, math.Log10(window.Seconds())),
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "leases")
			// Otherwise no ID would have a time from before the first process's clock.
			require.NoError(t, lease.Init(t.Context(), lease.File(dir), test.layout))
			rnd := seeded(t)
			each := max(1, *kills*test.share/100/test.processes)
			var all servertest.Issued
			var issuing atomic.Int32
			t.Run("processes", func(t *testing.T) {
				for n := range test.processes {
					rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
					t.Run(fmt.Sprint(n), func(t *testing.T) {
						t.Parallel()
						children := &nursery{t: t}
						for i := range each {
							p, k := children.take(), test.task(rnd, i*test.processes+n)
							k.Dir, k.Layout, k.Window = dir, test.layout, window
							before := bounds(t, dir)
							p.live(k, rnd)
							if test.processes == 1 {
								withinBounds(t, k.Layout, p.ids, before, bounds(t, dir))
							}
							all.Add(i*test.processes+n, p.ids...)
							if len(p.ids) > 0 {
								issuing.Add(1)
							}
						}
					})
				}
			})
			all.Check(t, test.layout)
			runs := each * test.processes
			t.Logf("%d runs, of which %d issued %d IDs", runs, issuing.Load(), all.Len())
			if runs > 20 { // enough that it is not chance
				assert.Greater(t, int(issuing.Load()), runs/10, "most end before they do anything")
			}
		})
	}
}

// withinBounds checks IDs against the bounds that were stored before and after.
func withinBounds(t *testing.T, layout snowflake.Layout, ids []snowflake.ID, before, after map[int][]time.Time) {
	t.Helper()
	for _, id := range ids {
		is := layout.Decode(id)
		if was := before[is.Worker]; is.ClockSeq < len(was) {
			require.False(t, is.Time.Before(was[is.ClockSeq]), "%v was another's to stamp", is)
		}
		require.True(t, is.Time.Before(after[is.Worker][is.ClockSeq]), "%v is not below the bound in %v", is, after)
	}
}

// Many processes start at once on a new directory, and later on a directory whose worker IDs are
// all released. Each process gets a worker ID at its first attempt.
func TestManyProcessesAtOnceGetDifferentWorkerIDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	for _, when := range []string{"new", "released"} {
		all := make([]*process, *atOnce)
		for i := range all {
			all[i] = start(t)
		}
		for i, p := range all {
			p.begin(task{Dir: dir, Layout: plain, Owner: fmt.Sprint(when, i), One: true})
		}
		for _, p := range all {
			p.until(p.First)
		}
		workers := map[int]bool{}
		for _, p := range all {
			p.release()
			p.end()
			require.Len(t, p.ids, 1)
			workers[plain.Decode(p.ids[0]).Worker] = true
		}
		assert.Len(t, workers, len(all))
	}
}
