package lease_test

import (
	"bufio"
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
	What string // acquired, refused, failed, ended or released

	// if it is acquired or refused:
	Worker, Seq int
	From, To    time.Time     // the window
	Began       time.Time     // what the child's clock read before Acquire
	Took        time.Duration // how long Acquire took

	Err       string
	Is        string // what the error matches
	Exhausted *lease.ExhaustedError
	Backward  *snowflake.ClockBackwardError
}

const (
	isBackward  = "ErrClockBackward"
	isExpired   = "ErrLeaseExpired"
	isExhausted = "ErrExhausted"
	isLost      = "ErrLost"
	isCanceled  = "context.Canceled"
	isLate      = "context.DeadlineExceeded"
)

func (r report) withError(err error) report {
	if err == nil {
		return r
	}
	r.Err = err.Error()
	for is, target := range map[string]error{
		isBackward:  snowflake.ErrClockBackward,
		isExpired:   snowflake.ErrLeaseExpired,
		isExhausted: lease.ErrExhausted,
		isLost:      lease.ErrLost,
	} {
		if errors.Is(err, target) {
			r.Is = is
		}
	}
	if errors.Is(err, context.Canceled) && r.What != "failed" { // the error also says what the call waited for
		r.Is = isCanceled
	}
	if errors.Is(err, context.DeadlineExceeded) && r.What == "released" {
		r.Is = isLate
	}
	errors.As(err, &r.Exhausted)
	errors.As(err, &r.Backward)
	return r
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
	check(json.Unmarshal(in.Bytes(), &k))
	terminate := make(chan struct{})
	go func() {
		if !in.Scan() {
			os.Exit(1) // the parent has ended
		}
		close(terminate)
	}()

	c := &childProcess{task: k, clock: snowflake.SystemClock()}
	if k.Offset != 0 || k.Step != 0 {
		c.clock = snowflake.ClockFunc(c.now)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	acquired := make(chan bool, 1)
	go func() { acquired <- c.acquire(ctx) }()
	select {
	case <-terminate:
		cancel()
		if <-acquired {
			c.release()
		}
		return
	case ok := <-acquired:
		if !ok {
			return
		}
	}
	if !k.Idle {
		c.issuer.Go(c.issueAll)
	}
	<-terminate
	c.release()
}

type childProcess struct {
	task
	clock    snowflake.Clock
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
	start := time.Now()
	r := report{What: "acquired", Began: c.clock.Now().Round(0)}
	l, err := lease.Acquire(ctx, lease.File(c.Dir), &lease.Options{
		Layout: c.Layout,
		Owner:  c.Owner,
		First:  c.First,
		Count:  c.Count,
		Window: c.Window,
		OnLoss: c.OnLoss,
		Clock:  c.clock,
	})
	end := time.Now()
	r.Took = end.Sub(start)
	c.acquired.Store(&end)
	if err != nil {
		r.What = "refused"
		tell(r.withError(err))
		return false
	}
	opts := &snowflake.Options{Clock: c.clock}
	if c.Layout.ClockSeqBits > 0 {
		opts.OnBackward = snowflake.ClockSeqPolicy()
	}
	c.lease = l
	c.gen, err = snowflake.NewLeased(l, opts)
	check(err)
	g := l.Grant()
	r.Worker, r.Seq, r.From, r.To = g.Worker, g.ClockSeq, g.From, g.To
	tell(r)
	go func() {
		<-l.Done()
		if err := l.Err(); !errors.Is(err, lease.ErrReleased) {
			tell(report{What: "ended"}.withError(err))
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
		if err == nil {
			continue
		}
		if errors.Is(err, snowflake.ErrLeaseExpired) && c.lease.Err() != nil {
			return
		}
		if r := (report{What: "failed"}).withError(err); r.Is != told {
			told = r.Is
			tell(r)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// release releases the lease while IDs are being issued.
func (c *childProcess) release() {
	err := c.lease.Release(context.Background())
	c.issuer.Wait()
	tell(report{What: "released"}.withError(err))
}

func tell(r report) {
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

// process is a child, as its parent sees it.
type process struct {
	*servertest.Child
	t *testing.T

	reports chan report
	exited  chan struct{}
	ended   chan struct{} // closed when it has lost its lease

	// Read these only when the child has exited:
	told  []report
	ids   []snowflake.ID
	noise string // output that is not a report
}

// start starts a child, which waits for its task.
func start(t *testing.T) *process {
	t.Helper()
	p := &process{
		Child:   servertest.StartChild(t, childEnv+"=1"),
		t:       t,
		reports: make(chan report, 1000),
		exited:  make(chan struct{}),
		ended:   make(chan struct{}),
	}
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
		if r.What == "ended" {
			close(p.ended)
		}
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

// awaitFirst waits until the child issues its first ID or ends.
func (p *process) awaitFirst() {
	p.t.Helper()
	select {
	case <-p.First:
	case <-p.ended:
	case <-time.After(hang):
		require.FailNow(p.t, "the child issues nothing")
	}
}

// release makes the child release its lease and exit, if it has not ended.
func (p *process) release() { _ = p.Tell("release") }

// kill kills the child if it has not ended, and waits for its end.
func (p *process) kill() {
	_ = p.Process().Kill()
	p.wait()
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

// nursery has a child ready.
type nursery struct {
	t     *testing.T
	spare *process
}

func (n *nursery) take() *process {
	if n.spare == nil {
		n.spare = start(n.t)
	}
	p := n.spare
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
		if r.State == lease.Dead {
			r.State = lease.Held
		}
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
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
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

// run is one child's life.
type run struct {
	*process
	k             task
	before, after map[int]lease.Record // the stored records
}

func TestKilledProcessesRepeatNoID(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		share  int // of the kills, in percent
		layout snowflake.Layout
		task   func(r *rand.Rand, i int) task
		check  func(*run)
	}{
		{"many workers, clocks set by anything", 60, plain, func(r *rand.Rand, i int) task {
			k := task{Owner: fmt.Sprint("owner", r.IntN(3)), First: 0, Count: 1024, Window: 60 * time.Millisecond}
			k.Offset = between(r, -6, 3.3)
			if r.IntN(4) == 0 {
				k.Step, k.StepAfter = between(r, -6, 0), upTo(r, 20*time.Millisecond)
			}
			return k
		}, func(u *run) {
			if r, ok := u.find("refused"); ok {
				assert.Equal(u.t, isCanceled, r.Is, "there is always one free: %v", r.Err)
			}
		}},
		{"one worker, clock sequences, clocks set by anything", 40, sequenced, func(r *rand.Rand, i int) task {
			k := task{First: 5, Count: 1, Window: 60 * time.Millisecond}
			// Time moves forward, so that the clock reaches bounds that a leap set.
			k.Offset = time.Duration(i)*20*time.Second + between(r, -6, 3)
			if r.IntN(4) > 0 {
				k.Step, k.StepAfter = -between(r, -3, 1).Abs(), upTo(r, 20*time.Millisecond)
			}
			return k
		}, checkClockSeqs},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rnd := seeded(t)
			dir := filepath.Join(t.TempDir(), "leases")
			children := &nursery{t: t}
			var all servertest.Issued
			acquired, issuing, bumped := 0, 0, 0
			total := max(1, *kills*test.share/100)
			for i := range total {
				u := &run{process: children.take(), k: test.task(rnd, i)}
				u.k.Dir, u.k.Layout = dir, test.layout
				u.before = records(t, dir)
				u.live(rnd)
				u.after = records(t, dir)
				u.checkFence()
				test.check(u)
				require.False(t, t.Failed(), "run %d: %+v\nsaid: %+v", i, u.k, u.told)
				all.Add(i, u.ids...)
				if _, ok := u.find("acquired"); ok {
					acquired++
				}
				if len(u.ids) > 0 {
					issuing++
					if test.layout.Decode(u.ids[0]).ClockSeq != test.layout.Decode(u.ids[len(u.ids)-1]).ClockSeq {
						bumped++
					}
				}
			}
			all.Check(t, test.layout)
			t.Logf("%d runs: %d acquired, %d issued, %d changed the clock sequence; %d IDs",
				total, acquired, issuing, bumped, all.Len())
			if total > 20 { // enough that it is not chance
				assert.Greater(t, issuing, total/10, "most end before they do anything")
			}
		})
	}
}

// live lets the child begin, and ends it at a random moment. Mostly it kills the child: after a while from
// the beginning or from the first ID, or while it releases. Sometimes the child may release.
func (u *run) live(r *rand.Rand) {
	u.t.Helper()
	u.begin(u.k)
	age := 40 * time.Millisecond
	switch r.IntN(4) {
	case 0: // about as long as Acquire takes
		age = 8 * time.Millisecond
	case 1: // about as long as Acquire takes if it waits for the last holder's bound
		age += u.k.Window
	default:
		u.awaitFirst()
	}
	time.Sleep(upTo(r, age))
	switch r.IntN(8) {
	case 0:
		u.release()
		select {
		case <-u.exited:
		case <-time.After(hang):
			require.FailNow(u.t, "the child does not exit")
		}
	case 1:
		u.release()
		time.Sleep(upTo(r, 5*time.Millisecond))
	}
	u.kill()
	require.Empty(u.t, u.noise)
}

// checkFence checks each ID against the bounds that were stored before and after.
func (u *run) checkFence() {
	a, ok := u.find("acquired")
	if !ok {
		require.Empty(u.t, u.ids)
		return
	}
	require.False(u.t, a.From.Before(boundOf(u.before[a.Worker], a.Seq)), "the window begins at the stored bound, or later")
	last := map[int]time.Time{}
	for _, id := range u.ids {
		p := u.k.Layout.Decode(id)
		require.Equal(u.t, a.Worker, p.Worker)
		require.False(u.t, p.Time.Before(boundOf(u.before[p.Worker], p.ClockSeq)), "%v was another's to stamp", p)
		require.True(u.t, p.Time.Before(boundOf(u.after[p.Worker], p.ClockSeq)), "%v is not below the bound in %v", p, u.after)
		last[p.ClockSeq] = p.Time
	}
	if r, ok := u.find("released"); ok && len(u.ids) > 0 && r.Is != isLate { // a disk may be slower than the window
		require.Empty(u.t, r.Err)
		rec := u.after[a.Worker]
		require.Equal(u.t, lease.Free, rec.State)
		if end, ok := last[rec.ClockSeq]; ok {
			unit := u.k.Layout.Unit
			exact := []time.Time{end.Add(unit), end.Add(2 * unit)} // a call may have waited for a tick that had passed when the last renewal closed it
			require.Contains(u.t, exact, rec.Bound(), "Release records the exact end")
		}
	}
	for _, r := range u.told {
		if r.What == "failed" {
			require.Contains(u.t, []string{isBackward, isExpired}, r.Is, r.Err)
		}
		if r.What == "ended" {
			require.Equal(u.t, isCanceled, r.Is, "nobody else is there: %v", r.Err)
		}
	}
}

// checkClockSeqs: if a clock was set back, a child acquires a worker ID as long as a clock sequence has a
// bound before the clock.
func checkClockSeqs(u *run) {
	rec := u.before[5]
	possible := func(now time.Time) bool {
		return len(rec.Bounds) < 1<<u.k.Layout.ClockSeqBits ||
			slices.ContainsFunc(rec.Bounds, func(b time.Time) bool { return !b.After(now) })
	}
	if r, ok := u.find("acquired"); ok && possible(r.Began) {
		assert.False(u.t, r.From.After(r.Began.Add(r.Took)), "it took a clock sequence whose bound is ahead, at %v, in %+v", r.From, rec)
	}
	r, refused := u.find("refused")
	if r.Is == isExhausted { // a machine is so busy that a child watched for too short a time
		assert.Greater(u.t, r.Took, u.k.Window, r.Err)
		return
	}
	if refused && r.Is != isCanceled {
		require.Equal(u.t, isBackward, r.Is, r.Err)
		assert.False(u.t, possible(r.Began), "refused at %v: %v: %+v", r.Began, r.Err, rec)
	}
}

// There are more processes than worker IDs, and processes are killed and started all the time.
func TestKilledProcessesAmongManyRepeatNoID(t *testing.T) {
	t.Parallel()
	const processes, window = 5, 60 * time.Millisecond
	dir := t.TempDir()
	each := max(1, *kills/2/processes)
	rnd := seeded(t)
	var all servertest.Issued
	var mu sync.Mutex
	counts := map[string]int{}
	t.Run("processes", func(t *testing.T) {
		for n := range processes {
			rnd := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				children := &nursery{t: t}
				for i := range each {
					u := &run{process: children.take(), k: task{
						Dir: dir, Layout: plain, First: 3, Count: 3, Window: window,
						Owner:  fmt.Sprint("owner", n),
						Offset: between(rnd, -6, math.Log10(window.Seconds())),
						OnLoss: lease.OnLoss(rnd.IntN(2)),
					}}
					u.live(rnd)
					all.Add(i*processes+n, u.ids...)
					mu.Lock()
					if len(u.ids) > 0 {
						counts["has issued"]++
					}
					for _, r := range u.told {
						counts[r.What+" "+r.Is]++
					}
					mu.Unlock()
					for _, r := range u.told {
						switch r.What + " " + r.Is {
						case "acquired ", "refused " + isCanceled, "failed " + isBackward, "failed " + isExpired, "failed " + isLost,
							"ended " + isLost, "released ", "released " + isLost:
						case "refused " + isBackward:
							assert.Greater(t, r.Backward.By(), window)
						case "refused " + isExhausted:
							assert.Len(t, r.Exhausted.Records, 3, r.Err)
						default:
							assert.Fail(t, "unexpected", "%+v", r)
						}
					}
				}
			})
		}
	})
	t.Logf("%v; %d IDs", counts, all.Len())
	all.Check(t, plain)
	assert.Greater(t, counts["has issued"], processes*each/10)
}
