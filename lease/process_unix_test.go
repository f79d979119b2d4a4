//go:build (darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd) && go1.25

package lease_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Process().Signal(s))
}

// stop stops a child with SIGSTOP, but not while it has the lock of its record. A child stopped
// with the lock would keep all others from taking over the worker ID.
func (p *process) stop(lock string) {
	p.t.Helper()
	for {
		p.signal(syscall.SIGSTOP)
		var status syscall.WaitStatus
		for {
			_, err := syscall.Wait4(p.Process().Pid, &status, syscall.WUNTRACED, nil)
			if err == nil {
				break
			}
			require.ErrorIs(p.t, err, syscall.EINTR)
		}
		require.True(p.t, status.Stopped())
		f, err := os.Open(lock)
		require.NoError(p.t, err)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		require.NoError(p.t, f.Close())
		if err == nil {
			return
		}
		p.signal(syscall.SIGCONT)
		time.Sleep(time.Millisecond)
	}
}

// Holders are stopped and continued at random while they issue IDs.
func TestStoppedHoldersAtFullRateRepeatNoID(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	dir := t.TempDir()
	k := task{Dir: dir, Layout: plain, First: 5, Count: 1, Window: 120 * time.Millisecond, OnLoss: lease.Stop}
	children := &nursery{t: t}
	holds := func() *process {
		for {
			p := children.take().begin(k)
			p.until(p.First)
			// A busy machine lets its own window pass while it watches another's.
			if ids, _ := p.IDs(); len(ids) > 0 {
				return p
			}
		}
	}
	last := snowflake.ID(0)
	a := holds()
	for range 6 {
		time.Sleep(upTo(rnd, 50*time.Millisecond))
		a.stop(filepath.Join(dir, "worker", "5~lock"))
		b := holds()
		time.Sleep(upTo(rnd, 20*time.Millisecond))
		a.signal(syscall.SIGCONT)
		a.end() // it has lost its worker ID
		require.Greater(t, a.ids[0], last)
		last, a = a.ids[len(a.ids)-1], b
	}
	a.kill()
	require.Greater(t, a.ids[0], last)
}

// If a process is stopped during a save, only its worker ID is blocked.
func TestAcquireSkipsALockedWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "worker"), 0o755))
		f, err := os.Create(filepath.Join(dir, "worker", "3~lock"))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
		o := &lease.Options{First: 3, Count: 2, Window: 50 * time.Millisecond, NewStore: true}
		l, err := lease.Acquire(t.Context(), lease.File(dir), o)
		require.NoError(t, err)
		assert.Equal(t, 4, l.Worker())
		require.NoError(t, l.Release(t.Context()))

		o.Count = 1
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = lease.Acquire(ctx, lease.File(dir), o)
		require.ErrorContains(t, err, "3~lock: locked by another")
		time.Sleep(time.Minute) // until it has given up
	})
}
