//go:build unix

package servertest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// A fleet is of child processes: the test binary, started again.

const childEnv = "SERVERTEST_CHILD"

// task is what a child is to do.
type task struct {
	Addr, Space, Owner string
	Count              int
	Window             time.Duration
}

// batch is how many IDs a child issues each millisecond.
const batch = 10

// Main runs the tests of a package whose children open stores with open. It
// returns what os.Exit takes.
func Main(m *testing.M, open func(addr, space string) (lease.Store, error)) int {
	if os.Getenv(childEnv) == "" {
		return m.Run()
	}
	var k task
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &k); err != nil {
		panic(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone
	}()
	var store lease.Store
	for {
		var err error
		if store, err = open(k.Addr, k.Space); err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, "open:", err)
		time.Sleep(100 * time.Millisecond)
	}
	for {
		if err := k.hold(store); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// hold takes a worker ID and issues IDs until the lease has ended.
func (k task) hold(store lease.Store) error {
	ctx := context.Background()
	l, err := lease.Acquire(ctx, store, &lease.Options{Layout: fleetLayout(), Owner: k.Owner, Count: k.Count, Window: k.Window, MaxLeap: 24 * time.Hour})
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
		var out []byte
		for _, id := range ids[:n] {
			out = binary.BigEndian.AppendUint64(out, uint64(id))
		}
		if _, werr := os.Stdout.Write(out); werr != nil {
			os.Exit(1)
		}
		if err != nil && !errors.Is(err, snowflake.ErrLeaseExpired) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return l.Err()
}

// fleetLayout has so few IDs a tick that two holders of one worker ID would
// issue the same.
func fleetLayout() snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.SequenceBits, l.TimeBits = 6, 47
	return l
}

// child is a process of a fleet, as its parent sees it.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	read  sync.WaitGroup

	mu   sync.Mutex
	ids  []snowflake.ID
	said string // its last error
}

// fleet is the processes of a test, living and dead.
type fleet struct {
	t    *testing.T
	k    task
	all  []*child
	live []*child
}

func (f *fleet) start() {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	c := &child{name: fmt.Sprint("process ", len(f.all))}
	k := f.k
	k.Owner = c.name
	spec, err := json.Marshal(k)
	if err != nil {
		f.t.Fatal(err)
	}
	c.cmd = exec.Command(exe, "-test.run=^$")
	c.cmd.Dir = filepath.Dir(exe)
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	stdin, err1 := c.cmd.StdinPipe()
	stdout, err2 := c.cmd.StdoutPipe()
	stderr, err3 := c.cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3, c.cmd.Start()); err != nil {
		f.t.Fatal(err)
	}
	c.stdin = stdin
	c.read.Go(func() { c.readIDs(stdout) })
	c.read.Go(func() { c.readErrors(stderr) })
	f.all, f.live = append(f.all, c), append(f.live, c)
}

func (c *child) readIDs(r io.Reader) {
	in := bufio.NewReader(r)
	for b := make([]byte, 8); ; {
		if _, err := io.ReadFull(in, b); err != nil {
			return
		}
		c.mu.Lock()
		c.ids = append(c.ids, snowflake.ID(binary.BigEndian.Uint64(b)))
		c.mu.Unlock()
	}
}

func (c *child) readErrors(r io.Reader) {
	for in := bufio.NewScanner(r); in.Scan(); {
		c.mu.Lock()
		c.said = in.Text()
		c.mu.Unlock()
	}
}

func (c *child) state() (n int, said string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids), c.said
}

// kill kills the oldest process, and another takes its place.
func (f *fleet) kill() {
	f.end(f.live[0])
	f.live = f.live[1:]
	f.start()
}

func (f *fleet) end(c *child) {
	_ = c.cmd.Process.Kill()
	c.read.Wait()
	_ = c.cmd.Wait()
	_ = c.stdin.Close()
}

// pause stops the newest process for d.
func (f *fleet) pause(d time.Duration) {
	p := f.live[len(f.live)-1].cmd.Process
	_ = p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.Signal(syscall.SIGCONT)
}

// awaitAll waits until every living process has issued more IDs.
func (f *fleet) awaitAll(when string) {
	f.t.Helper()
	limit := time.Now().Add(patience + 10*f.k.Window)
	for _, c := range f.live {
		before, _ := c.state()
		for n := before; n < before+5*batch; time.Sleep(5 * time.Millisecond) {
			var said string
			if n, said = c.state(); time.Now().After(limit) {
				f.t.Fatalf("%s %s issued %d IDs, and no more; its last error: %s", when, c.name, n-before, said)
			}
		}
	}
}

// check ends all processes and looks for an ID that was issued twice.
func (f *fleet) check() {
	f.t.Helper()
	for _, c := range f.live {
		f.end(c)
	}
	f.live = nil
	by := map[snowflake.ID]string{}
	for _, c := range f.all {
		for _, id := range c.ids {
			if other, ok := by[id]; ok {
				f.t.Fatalf("%s issued %d (%v), which %s issued too", c.name, id, fleetLayout().Decode(id), other)
			}
			by[id] = c.name
		}
	}
	f.t.Logf("%d processes issued %d IDs, no two the same", len(f.all), len(by))
}

// Outage lets a fleet of processes issue IDs while fault is going on. Meanwhile
// processes are killed and stopped too. Afterwards no ID may have been issued
// twice, and every process must go on by itself.
func Outage(t *testing.T, s *Server, fault func()) {
	t.Helper()
	outage(t, s, s.Addr, fault)
}

func outage(t *testing.T, s *Server, addr string, fault func()) {
	t.Helper()
	const processes = 6
	f := &fleet{t: t, k: task{Addr: addr, Space: s.space(t), Count: processes + 2, Window: s.window()}}
	t.Cleanup(func() {
		for _, c := range f.live {
			f.end(c)
		}
	})
	for range processes {
		f.start()
	}
	f.awaitAll("at first")
	over := make(chan struct{})
	go func() {
		defer close(over)
		fault()
	}()
	f.kill()
	f.pause(s.window() + s.window()/4)
	<-over
	f.awaitAll("after the outage")
	f.kill()
	f.pause(s.window() + s.window()/4)
	f.awaitAll("in the end")
	f.check()
}
