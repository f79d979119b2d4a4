//go:build unix

package zklease_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

const copierEnv = "ZKLEASE_COPIER" // the address and the directory

var copierWindow = depth.Of(500*time.Millisecond, 2*time.Second)

// copier is the child process of TestLocalCopyStartsWhileZooKeeperIsAway. It writes its worker ID, IDs, and
// whether the last renewal reached ZooKeeper.
func copier(addr, dir string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has ended
	}()
	conn, err := dial(addr, session)
	if err != nil {
		return err
	}
	s, err := zklease.New(conn, nil)
	if err != nil {
		return err
	}
	o := &lease.Options{Owner: "copier", Window: copierWindow, Reuse: lease.ReuseKeep, LocalCopy: dir}
	l, err := lease.Acquire(context.Background(), s, o)
	for errors.Is(err, lease.ErrExhausted) { // on a busy machine, the copier before may look alive for longer
		l, err = lease.Acquire(context.Background(), s, o)
	}
	if err != nil {
		return err
	}
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	fmt.Println("worker", l.Worker())
	for ; ; time.Sleep(5 * time.Millisecond) {
		id, err := g.NextID()
		if errors.Is(err, snowflake.ErrLeaseExpired) && l.Err() == nil {
			continue // on a busy machine a renewal may be late
		}
		if err != nil {
			return err
		}
		state := "told"
		if l.Stats().Away != nil {
			state = "away"
		}
		if _, err := fmt.Println(state, id); err != nil {
			return err
		}
	}
}

// copying is a running copier.
type copying struct {
	*testing.T
	cmd   *exec.Cmd
	lines chan string
}

func startCopier(t *testing.T, addr, dir string) *copying {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := &copying{t, exec.Command(exe), make(chan string, 1<<16)}
	c.cmd.Env = append(os.Environ(), copierEnv+"="+addr+" "+dir)
	c.cmd.Stderr = os.Stderr
	_, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	go func() {
		defer close(c.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			c.lines <- in.Text()
		}
	}()
	return c
}

func (c *copying) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// await reads lines until n of them begin with word, and adds all IDs to seen.
func (c *copying) await(word string, n int, seen map[string]bool) (last string) {
	c.Helper()
	limit := time.After(2 * time.Minute)
	for n > 0 {
		select {
		case line, ok := <-c.lines:
			require.True(c, ok, "the process has ended")
			first, rest, _ := strings.Cut(line, " ")
			if first != "worker" {
				require.False(c, seen[rest], "%s is issued twice", rest)
				seen[rest] = true
			}
			if first == word {
				n--
				last = rest
			}
		case <-limit:
			c.Fatalf("the process does not say %q", word)
		}
	}
	return last
}

func (c *copying) drain(seen map[string]bool) {
	for line := range c.lines {
		_, id, _ := strings.Cut(line, " ")
		require.False(c, seen[id], "%s is issued twice", id)
		seen[id] = true
	}
}

func TestLocalCopyStartsWhileZooKeeperIsAway(t *testing.T) {
	t.Parallel()
	s, dir, seen := shared(t), servertest.Dir(t, ""), map[string]bool{}
	proxy := servertest.NewProxy(t, s.addr)
	other, err := lease.Acquire(t.Context(), open(t, connect(t, s.addr), nil), &lease.Options{Owner: "other"})
	require.NoError(t, err)
	a := startCopier(t, proxy.Addr(), dir)
	worker := a.await("worker", 1, seen)
	require.NotEqual(t, fmt.Sprint(other.Worker()), worker)
	a.await("told", 100, seen)
	a.kill()
	a.drain(seen)
	proxy.Reset() // and all connections until Heal

	b := startCopier(t, proxy.Addr(), dir)
	require.Equal(t, worker, b.await("worker", 1, seen))
	b.await("away", int(copierWindow/(4*time.Millisecond)), seen) // an ID takes 5 ms or more
	proxy.Heal()
	b.await("told", 100, seen)
	b.kill()
	b.drain(seen)

	c := startCopier(t, proxy.Addr(), dir)
	require.Equal(t, worker, c.await("worker", 1, seen))
	c.await("told", 100, seen)
}

func TestLocalCopyIsRefusedIfWorkerIDsAreReused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	_, err := lease.Acquire(t.Context(), open(t, connect(t, s.addr), newRoot()), &lease.Options{LocalCopy: t.TempDir()})
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	require.ErrorContains(t, err, "LocalCopy")
}
