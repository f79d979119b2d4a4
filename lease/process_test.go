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
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Tests with real processes. A child has childEnv in its environment. It reads its task from standard
// input, and writes reports to standard error, one a line. The line "release" makes it release its lease and exit.
// One child is always started ahead. If a child is killed, the next one begins at once.

var (
	kills    = flag.Int("kills", depth.Of(60, 400), "how many children TestKilledProcessesRepeatNoID kills")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the tests that kill at random; 0: a new one")
	atOnce   = flag.Int("at-once", depth.Of(16, 64), "how many processes TestManyProcessesAtOnceGetDifferentWorkerIDs starts, up to 1,024")
)

const (
	childEnv = "SNOWFLAKE_LEASE_CHILD"

	// hang is longer than any step takes. If a test hangs, it ends after this time.
	hang = time.Minute
)

// Layouts with few IDs in a tick, so that a long run fits into memory.
var (
	plain     = snowflake.Layout{Epoch: 1735689600000, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 5}
	sequenced = snowflake.Layout{Epoch: 1735689600000, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 3, WorkerBits: 7, SequenceBits: 5}
)

// task is what a child is to do.
type task struct {
	Dir          string
	Layout       snowflake.Layout
	Owner        string
	First, Count int
	Window       time.Duration
	OnLoss       lease.OnLoss
	Idle         bool          // issue no IDs
	Offset       time.Duration // of the child's clock from the host's
	Step         time.Duration // how far the clock is set forward or back
	StepAfter    time.Duration // this long after Acquire
}

// report is one report of a child.
type report struct {
	What, Is string // Is is what the error matches
	Err      string
	Grant    snowflake.Grant // if it has acquired
}

const (
	acquired = "acquired"
	refused  = "refused"
	failed   = "failed" // a call of NextID
	ended    = "ended"  // by itself
	released = "released"

	isExpired   = "ErrLeaseExpired"
	isCanceled  = "context.Canceled"
	isBackward  = "ErrClockBackward"
	isExhausted = "ErrExhausted"
	isLost      = "ErrLost"
	isLate      = "context.DeadlineExceeded"
)

// is returns what err matches. If it matches several errors, the first counts.
func is(err error) string {
	for _, is := range []struct {
		target error
		name   string
	}{
		{snowflake.ErrLeaseExpired, isExpired}, {context.Canceled, isCanceled}, {snowflake.ErrClockBackward, isBackward},
		{lease.ErrExhausted, isExhausted}, {lease.ErrLost, isLost}, {context.DeadlineExceeded, isLate},
	} {
		if errors.Is(err, is.target) {
			return is.name
		}
	}
	return ""
}

func tell(what string, grant snowflake.Grant, err error) {
	r := report{What: what, Is: is(err), Grant: grant}
	if err != nil {
		r.Err = err.Error()
	}
	b, err := json.Marshal(r)
	check(err)
	_, err = os.Stderr.Write(append(b, '\n'))
	check(err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
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
	var c childProcess
	if !in.Scan() {
		return // the test did not need this child
	}
	check(json.Unmarshal(in.Bytes(), &c.task))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		if !in.Scan() {
			os.Exit(1) // the parent has ended
		}
		cancel()
	}()
	if !c.acquire(ctx) {
		return
	}
	if !c.Idle {
		c.issuer.Go(c.issueAll)
	}
	<-ctx.Done()
	err := c.lease.Release(context.Background()) // while IDs are issued
	c.issuer.Wait()
	tell(released, snowflake.Grant{}, err)
}

type childProcess struct {
	task
	lease    *lease.Lease
	acquired atomic.Pointer[time.Time] // the time of Acquire
	gen      *snowflake.Generator
	issuer   sync.WaitGroup
}

// now is the child's clock.
func (c *childProcess) now() time.Time {
	now := time.Now().Add(c.Offset)
	if at := c.acquired.Load(); at != nil && time.Since(*at) >= c.StepAfter {
		now = now.Add(c.Step)
	}
	return now
}

func (c *childProcess) acquire(ctx context.Context) bool {
	clock := snowflake.SystemClock()
	if c.Offset != 0 || c.Step != 0 {
		clock = snowflake.ClockFunc(c.now)
	}
	l, err := lease.Acquire(ctx, lease.File(c.Dir), &lease.Options{
		Layout: c.Layout, Owner: c.Owner, First: c.First, Count: c.Count, Window: c.Window, OnLoss: c.OnLoss, Clock: clock,
	})
	end := time.Now()
	c.acquired.Store(&end)
	if err != nil {
		tell(refused, snowflake.Grant{}, err)
		return false
	}
	opts := &snowflake.Options{}
	if c.Layout.ClockSeqBits > 0 {
		opts.OnBackward = snowflake.ClockSeqPolicy()
	}
	c.lease = l
	c.gen, err = snowflake.NewLeased(l, opts)
	check(err)
	tell(acquired, l.Grant(), nil)
	go func() {
		<-l.Done()
		if err := l.Err(); !errors.Is(err, lease.ErrReleased) {
			tell(ended, snowflake.Grant{}, err)
		}
	}()
	return true
}

// issueAll issues IDs as fast as it can, until the lease has ended.
func (c *childProcess) issueAll() {
	var buf []snowflake.ID
	told := ""
	for {
		id, err := c.gen.NextID()
		if err == nil {
			buf = append(buf, id)
		}
		if len(buf) == 16 || err != nil {
			check(servertest.WriteIDs(buf...))
			buf = buf[:0]
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, snowflake.ErrLeaseExpired) && c.lease.Err() != nil:
			return
		case is(err) != told:
			told = is(err)
			tell(failed, snowflake.Grant{}, err)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// process is a child, as its parent sees it.
type process struct {
	*servertest.Child
	t *testing.T

	reports chan report
	exited  chan struct{}

	// Read these only when the child has exited:
	told  []report
	ids   []snowflake.ID
	noise string // output that is not a report
}

// start starts a child, which waits for its task.
func start(t *testing.T) *process {
	t.Helper()
	p := &process{Child: servertest.StartChild(t, childEnv+"=1"), t: t, reports: make(chan report, 1000), exited: make(chan struct{})}
	go p.readReports()
	return p
}

func (p *process) readReports() {
	defer close(p.exited)
	defer close(p.reports)
	for line := range p.Lines {
		var r report
		if json.Unmarshal([]byte(line), &r) != nil {
			p.noise += line
			continue
		}
		p.told = append(p.told, r)
		p.reports <- r
	}
}

// begin gives the child its task.
func (p *process) begin(k task) *process {
	p.t.Helper()
	b, err := json.Marshal(k)
	require.NoError(p.t, err)
	require.NoError(p.t, p.Tell(string(b)))
	return p
}

// await returns the next report of one of these kinds.
func (p *process) await(what ...string) report {
	p.t.Helper()
	timeout := time.After(hang)
	for {
		select {
		case r, ok := <-p.reports:
			require.True(p.t, ok, "the child exited and did not say: %v\n%s", what, p.noise)
			if slices.Contains(what, r.What) {
				return r
			}
		case <-timeout:
			require.FailNow(p.t, "the child does not say", what)
		}
	}
}

// until waits until done is closed or, if the child exits before that, until then.
func (p *process) until(done <-chan struct{}) {
	p.t.Helper()
	select {
	case <-done:
	case <-p.exited:
	case <-time.After(hang):
		require.FailNow(p.t, "the child hangs")
	}
}

// release makes the child release its lease and exit, if it has not ended.
func (p *process) release() { _ = p.Tell("release") }

// kill kills the child if it has not ended, and waits for its end.
func (p *process) kill() {
	_ = p.Process().Kill()
	p.wait()
	require.Empty(p.t, p.noise)
}

// wait waits for the child's end.
func (p *process) wait() {
	p.Wait()
	<-p.exited
	p.ids, _ = p.IDs()
}

func (p *process) find(what string) (report, bool) {
	i := slices.IndexFunc(p.told, func(r report) bool { return r.What == what })
	if i < 0 {
		return report{}, false
	}
	return p.told[i], true
}

// live lets the child begin, and ends it at a random moment. Mostly it kills the child: after a while from
// the beginning or from the first ID, or while it releases. Sometimes the child may release.
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
		p.until(p.exited)
	case 1:
		p.release()
		time.Sleep(upTo(r, 5*time.Millisecond))
	}
	p.kill()
}

// nursery has a child ready.
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

// records returns the stored records by worker. They must be readable after every crash.
func records(t *testing.T, dir string) map[int]lease.Record {
	t.Helper()
	all, err := lease.Holders(t.Context(), lease.File(dir))
	require.NoError(t, err)
	m := map[int]lease.Record{}
	for _, r := range all {
		m[r.Worker] = r
	}
	return m
}

// boundOf returns the bound of a clock sequence. It is zero if the sequence was not used.
func boundOf(r lease.Record, seq int) time.Time {
	if seq < len(r.Bounds) {
		return r.Bounds[seq]
	}
	return time.Time{}
}

// seeded returns a source of randomness. It logs the seed, for -kill-seed.
func seeded(t *testing.T) *rand.Rand {
	seed := cmp.Or(*killSeed, rand.Uint64())
	t.Logf("-kill-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// between returns a positive or negative duration of 10^lo to 10^hi seconds. All magnitudes are equally
// likely.
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
	const window = 60 * time.Millisecond
	for _, test := range []struct {
		name      string
		share     int // of the kills, in percent
		processes int // at once
		layout    snowflake.Layout
		task      func(r *rand.Rand, i int) task
		allowed   []string // reports
	}{
		{"many workers, clocks set by anything", 40, 1, plain, func(r *rand.Rand, i int) task {
			k := task{Owner: fmt.Sprint("owner", r.IntN(3)), First: 0, Count: 1024, Offset: between(r, -6, 3.3)}
			if r.IntN(4) == 0 {
				k.Step, k.StepAfter = between(r, -6, 0), upTo(r, 20*time.Millisecond)
			}
			return k
		}, nil},
		{"one worker, clock sequences, clocks set by anything", 30, 1, sequenced, func(r *rand.Rand, i int) task {
			k := task{First: 5, Count: 1}
			// Time moves forward, so that the clock reaches bounds that a leap set.
			k.Offset = time.Duration(i)*20*time.Second + between(r, -6, 3)
			if r.IntN(4) > 0 {
				k.Step, k.StepAfter = -between(r, -3, 1).Abs(), upTo(r, 20*time.Millisecond)
			}
			return k
		}, []string{refused + isBackward, refused + isExhausted}}, // a machine may be so busy that a child watches for too short a time
		{"many at once", 30, 5, plain, func(r *rand.Rand, i int) task {
			return task{First: 3, Count: 3, Owner: fmt.Sprint("owner", i%5), OnLoss: lease.OnLoss(r.IntN(2)), Offset: between(r, -6, math.Log10(window.Seconds()))}
		}, []string{refused + isBackward, refused + isExhausted, ended + isLost, released + isLost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "leases")
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
							before := records(t, dir)
							p.live(k, rnd)
							p.checkReports(test.allowed)
							if test.processes == 1 {
								p.checkFence(k, before, records(t, dir))
							}
							require.False(t, t.Failed(), "run %d: %+v\nsaid: %+v", i, k, p.told)
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

// checkReports checks that the child said what is usual, or allowed.
func (p *process) checkReports(allowed []string) {
	usual := []string{acquired, refused + isCanceled, failed + isBackward, failed + isExpired, released, released + isLate} // a disk may be slower than the window
	for _, r := range p.told {
		assert.Contains(p.t, append(usual, allowed...), r.What+r.Is, "%+v", r)
	}
}

// checkFence checks each ID against the bounds that were stored before and after.
func (p *process) checkFence(k task, before, after map[int]lease.Record) {
	a, ok := p.find(acquired)
	if !ok {
		require.Empty(p.t, p.ids)
		return
	}
	worker := a.Grant.Worker
	require.False(p.t, a.Grant.From.Before(boundOf(before[worker], a.Grant.ClockSeq)), "the window begins at the stored bound, or later")
	last := map[int]time.Time{}
	for _, id := range p.ids {
		is := k.Layout.Decode(id)
		require.Equal(p.t, worker, is.Worker)
		require.False(p.t, is.Time.Before(boundOf(before[worker], is.ClockSeq)), "%v was another's to stamp", is)
		require.True(p.t, is.Time.Before(boundOf(after[worker], is.ClockSeq)), "%v is not below the bound in %v", is, after)
		last[is.ClockSeq] = is.Time
	}
	if r, ok := p.find(released); ok && r.Is == "" && len(p.ids) > 0 {
		rec, unit := after[worker], k.Layout.Unit
		require.Equal(p.t, lease.Free, rec.State)
		if end, ok := last[rec.ClockSeq]; ok {
			exact := []time.Time{end.Add(unit), end.Add(2 * unit)} // a call may have waited for a tick that had passed when the last renewal closed it
			require.Contains(p.t, exact, rec.Bound(), "Release records the exact end")
		}
	}
}

// Many processes start at once on a new directory, and later on a directory whose worker IDs are all
// released. Each process gets a worker ID at its first attempt.
func TestManyProcessesAtOnceGetDifferentWorkerIDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	for _, when := range []string{"new", "released"} {
		all := make([]*process, *atOnce)
		for i := range all {
			all[i] = start(t)
		}
		for i, p := range all {
			p.begin(task{Dir: dir, Layout: plain, Owner: fmt.Sprint(when, i), Idle: true})
		}
		workers := map[int]bool{}
		for _, p := range all {
			r := p.await(acquired, refused)
			require.Equal(t, acquired, r.What, r.Err)
			workers[r.Grant.Worker] = true
		}
		assert.Len(t, workers, len(all))
		for _, p := range all {
			p.release()
		}
		for _, p := range all {
			if r := p.await(released); r.Err != "" {
				t.Logf("released: %s", r.Err) // the disk may be too slow for so many
			}
			p.wait()
		}
	}
}
