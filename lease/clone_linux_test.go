//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
)

// hypervisor is a file that stands in for the device of the hypervisor.
type hypervisor struct {
	t          *testing.T
	path       string
	generation uint64
}

func newHypervisor(t *testing.T) *hypervisor {
	m := &hypervisor{t: t, path: filepath.Join(t.TempDir(), "vmclock0")}
	m.clone()
	return m
}

// clone makes the machine a copy.
func (m *hypervisor) clone() {
	m.generation++
	vmclocktest.Write(m.t, m.path, m.generation)
}

// Copies may draw the same random numbers, and have the same generation.
func TestTokensOfCopiesDiffer(t *testing.T) {
	now := time.Now()
	l, copies := &Lease{cloning: cloning{vm: new(atomic.Uint64)}}, map[string]bool{}
	for range 2 {
		for generation := range uint64(2) {
			tail := l.newToken(generation, now)[26:]
			assert.False(t, copies[tail], tail)
			copies[tail] = true
		}
		now = now.Add(1)
	}
}

func TestCloneInTheMidstOfACallIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newHypervisor(t)
		var reads, cloneAt atomic.Int64
		clock := snowflake.ClockFunc(func() time.Time {
			if reads.Add(1) == cloneAt.Load() {
				vm.clone()
			}
			return time.Now()
		})
		l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Clock: clock, NewStore: true, VMClock: vm.path})
		require.NoError(t, err)
		defer l.Release(context.Background())
		g, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		vm.clone()
		require.ErrorIs(t, l.Ready(), errCloned)
		_, err = g.NextID()
		require.NoError(t, err)
		require.NoError(t, l.Ready())
		worker, bound := l.Worker(), l.Grant().To
		cloneAt.Store(reads.Load() + 1)
		id, err := g.NextID()
		require.NoError(t, err)
		p := g.Decode(id)
		assert.True(t, p.Worker != worker || !p.Time.Before(bound), "worker %d at %v", p.Worker, p.Time)
	})
}

// The directory was cloned, too: another worker ID of it may be taken by the other copy.
func TestCloneWithAFileStoreEndsTheLease(t *testing.T) {
	vm := newHypervisor(t)
	l, err := Acquire(t.Context(), File(t.TempDir()), &Options{Layout: fleet, NewStore: true, VMClock: vm.path})
	require.NoError(t, err)
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	vm.clone()
	_, err = g.NextID()
	require.ErrorIs(t, err, ErrLost)
	<-l.Done()
	assert.ErrorContains(t, l.Err(), "cloned")
	assert.Equal(t, l.Grant().From, l.Grant().To, "the lease grants nothing more, also if nobody compares generations")
}

// The machine is cloned before the worker ID is chosen: either copy could choose the same.
func TestCloneOfAnAcquisitionInADirectoryFails(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"file":       func(*Options) {},
		"local copy": func(o *Options) { o.Reuse, o.LocalCopy = ReuseKeep, t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			vm := newHypervisor(t)
			reads := 0
			clock := snowflake.ClockFunc(func() time.Time {
				if reads++; reads == 1 {
					vm.clone()
				}
				return time.Now()
			})
			store := File(t.TempDir())
			o := &Options{Layout: fleet, NewStore: true, VMClock: vm.path, Clock: clock}
			if change(o); o.LocalCopy != "" {
				store = newMemory()
			}
			_, err := Acquire(t.Context(), store, o)
			require.ErrorIs(t, err, errCloned)
		})
	}
}

// The other copy may go on with the record. So the worker ID is replaced.
func TestCloneDoesNotChangeTheClockSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newHypervisor(t)
		h := mustAcquire(t, m, both, clockAt(0), func(o *Options) { o.VMClock = vm.path })
		worker := h.Worker()
		before := m.record(worker)
		vm.clone()
		require.NoError(t, served{h.Lease}.Bump(t.Context(), h.Grant(), time.Now()))
		assert.Equal(t, before, m.record(worker))
		assert.NotEqual(t, worker, h.Worker())
	})
}

// If nobody named the device, the lease works without it, and the log says why.
func TestVMClockThatCannotBeUsedIsLogged(t *testing.T) {
	defer func(path string) { vmclock.Device = path }(vmclock.Device)
	vmclock.Device = filepath.Join(t.TempDir(), "vmclock0")
	logged := func() string {
		var log bytes.Buffer
		l, err := Acquire(t.Context(), newMemory(), &Options{
			Layout:   plain,
			NewStore: true,
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		defer l.Release(t.Context())
		return log.String()
	}
	assert.NotContains(t, logged(), "clones", "there is no device")
	require.NoError(t, os.WriteFile(vmclock.Device, []byte("x"), 0o644))
	text := logged()
	assert.Equal(t, 1, strings.Count(text, "device for clones cannot be used"), text)
	assert.Contains(t, text, "level=INFO")
	assert.Contains(t, text, "path="+vmclock.Device)
	assert.Contains(t, text, "has 1 bytes, not 112")
	vmclocktest.Write(t, vmclock.Device, 1)
	assert.NotContains(t, logged(), "clones")
}

func TestVMClockThatCannotBeUsedIsRefusedIfItWasNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vmclock0")
	_, err := Acquire(t.Context(), newMemory(), &Options{Layout: plain, NewStore: true, VMClock: path})
	require.ErrorIs(t, err, ErrInvalidOptions)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o644))
	_, err = Acquire(t.Context(), newMemory(), &Options{Layout: plain, NewStore: true, VMClock: path})
	require.ErrorIs(t, err, vmclock.ErrNoCounter)
	assert.True(t, errors.Is(err, ErrInvalidOptions))
}
