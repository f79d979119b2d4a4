//go:build unix && go1.25

package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// childEnv is the environment variable with a child's task.
const childEnv = "SERVERTEST_CHILD"

// task is the task of a fleet's child process.
type task struct {
	Addr, Space, Owner string
	Count              int
	Window             time.Duration
}

// batch is the number of IDs that a child issues every three milliseconds.
const batch = 10

// Parallel is the number of tests that Main runs concurrently, except in the full run. Most tests
// mainly wait. If those of a package use more processor time, set a smaller number before Main.
var Parallel = 8

// Opener opens a client of a space, which is a name of letters and digits for a separate table or
// prefix. end closes the client; it may be nil.
type Opener func(addr, space string) (store lease.Store, end func() error, err error)

var opener Opener

// Main runs the tests of a package, and returns the exit status for os.Exit. The tests and their
// child processes open their stores with open.
func Main(m *testing.M, open Opener) int {
	opener = open
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: askNames}
	if os.Getenv(childEnv) == "" {
		depth.TempDirInMemory()
		depth.AtOnce(Parallel)
		defer stopShared()
		return m.Run()
	}
	var k task
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &k); err != nil {
		panic(err)
	}
	EndWithParent()
	var store lease.Store
	for {
		var err error
		if store, _, err = open(k.Addr, k.Space); err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, "open:", err)
		time.Sleep(100 * time.Millisecond)
	}
	for {
		if err := k.issueIDs(store); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// issueIDs acquires a worker ID and issues IDs until the lease has ended.
func (k task) issueIDs(store lease.Store) error {
	ctx := context.Background()
	l, err := lease.Acquire(ctx, store, &lease.Options{
		Layout:   fleetLayout(),
		Owner:    k.Owner,
		Count:    k.Count,
		Window:   k.Window,
		MaxLeap:  24 * time.Hour,
		NewStore: true,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, k.Window)
		defer cancel()
		_ = l.Release(ctx)
	}()
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	ids := make([]snowflake.ID, batch)
	for l.Err() == nil {
		n, err := g.Fill(ctx, ids)
		if WriteIDs(ids[:n]...) != nil {
			os.Exit(1)
		}
		if err != nil && !errors.Is(err, snowflake.ErrLeaseExpired) {
			return err
		}
		time.Sleep(3 * time.Millisecond)
	}
	return l.Err()
}

// fleetLayout returns a layout with few IDs in a tick, so that two holders of a worker ID would
// issue the same IDs.
func fleetLayout() snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.SequenceBits, l.ClockSeqBits, l.TimeBits = 6, 3, 44
	return l
}

// fleetChild is a process of a fleet.
type fleetChild struct {
	*Child
	name string
	said atomic.Value // its last line
}

// fleet is a set of child processes of one task.
type fleet struct {
	t    *testing.T
	k    task
	env  []string
	all  []*fleetChild // with those that have ended
	live []*fleetChild
}

func (f *fleet) start() {
	f.t.Helper()
	k := f.k
	k.Owner = fmt.Sprint("process ", len(f.all))
	spec := Must(json.Marshal(k))(f.t)
	c := &fleetChild{Child: StartChild(f.t, append([]string{childEnv + "=" + string(spec)}, f.env...)...), name: k.Owner}
	go func() {
		for line := range c.Lines {
			c.said.Store(line)
		}
	}()
	f.all, f.live = append(f.all, c), append(f.live, c)
}

// kill kills the oldest process, and starts another one.
func (f *fleet) kill() {
	f.live[0].Kill()
	f.live = f.live[1:]
	f.start()
}

// pause stops the newest process for d.
func (f *fleet) pause(d time.Duration) {
	p := f.live[len(f.live)-1].Process()
	_ = p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.Signal(syscall.SIGCONT)
}

// awaitAll waits until every live process has issued more IDs.
func (f *fleet) awaitAll(when string) {
	f.t.Helper()
	limit := time.Now().Add(patience + 10*f.k.Window)
	for _, c := range f.live {
		before, _ := c.IDs()
		for now := before; len(now) < len(before)+5*batch; now, _ = c.IDs() {
			if time.Now().After(limit) {
				f.t.Fatalf("%s %s issued %d IDs, and no more; its last error: %v", when, c.name, len(now)-len(before), c.said.Load())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// check ends all processes, and fails the test if an ID was issued twice. store is a client of the
// fleet's store.
func (f *fleet) check(store lease.Store) {
	f.t.Helper()
	var issued Issued
	var all []snowflake.ID
	for i, c := range f.all {
		c.Kill()
		ids, _ := c.IDs()
		issued.Add(i, ids...)
		all = append(all, ids...)
	}
	issued.Check(f.t, fleetLayout())
	f.audit(store, all)
	f.t.Logf("%d processes issued %d IDs, no two the same", len(f.all), issued.Len())
}

// audit checks that the history names a holder for each ID of the fleet, but none for IDs of two
// generators without a lease: one with a worker ID that was never leased, and one with that of a
// dead holder whose window has ended.
func (f *fleet) audit(store lease.Store, all []snowflake.ID) {
	f.t.Helper()
	h, err := lease.ReadHistory(f.t.Context(), store)
	require.NoError(f.t, err)
	for _, id := range all {
		_, err := h.Whois(id)
		require.NoError(f.t, err, fleetLayout().Decode(id))
	}
	last := fleetLayout().Decode(slices.Max(all))
	time.Sleep(2 * f.k.Window)
	for worker, held := range map[int]bool{f.k.Count: false, last.Worker: true} {
		rogue, err := snowflake.New(worker, &snowflake.Options{Layout: fleetLayout()})
		require.NoError(f.t, err)
		id, err := rogue.NextID()
		require.NoError(f.t, err)
		_, err = h.Whois(id)
		require.ErrorIs(f.t, err, lease.ErrNeverIssued)
		if before, after := h.Around(id); held && last.ClockSeq == 0 {
			require.NotNil(f.t, before)
			require.Nil(f.t, after)
			require.Equal(f.t, last.Worker, before.Worker)
		}
	}
}

// Outage runs a fleet of processes, which reach the server at addr, during one trouble after
// another. During each one process is killed, and one is stopped for longer than a window. After
// it, each live process must issue IDs again, by itself. No ID is issued twice.
func Outage(t *testing.T, s *Server, addr string, all ...Trouble) {
	t.Helper()
	processes := depth.Of(3, 6)
	f := &fleet{t: t, k: task{Addr: addr, Space: NewSpace(), Count: processes + 2, Window: s.short()}, env: s.Env}
	for range processes {
		f.start()
	}
	f.awaitAll("at first")
	for _, x := range all {
		var stopped sync.WaitGroup
		f.kill()
		stopped.Go(func() { f.pause(s.short() * 5 / 4) })
		t.Run(x.Name, func(t *testing.T) {
			if end := x.Begin(t, f.k.Space); end != nil {
				end(t)
			}
		})
		stopped.Wait()
		f.awaitAll("after " + x.Name)
	}
	f.check(s.client(t, addr, f.k.Space))
}
