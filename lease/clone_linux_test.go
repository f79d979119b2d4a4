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

// machine is a file that stands in for the device of the hypervisor.
type machine struct {
	t          *testing.T
	path       string
	generation uint64
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, path: filepath.Join(t.TempDir(), "vmclock0")}
	m.clone()
	return m
}

func (m *machine) guard(o *Options) { o.VMClock = m.path }

// clone makes the machine a copy.
func (m *machine) clone() {
	m.generation++
	vmclocktest.Write(m.t, m.path, m.generation)
}

func TestCloneStampsNothingMoreOfItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		h := mustAcquire(t, m, fleet, clockAt(0), vm.guard)
		assert.True(t, h.Stats().Guarded)
		for range 5 {
			h.next()
			time.Sleep(ms)
		}
		worker, bound := h.Worker(), h.Grant().To
		vm.clone()
		p := h.next()
		assert.True(t, p.Worker != worker || !p.Time.Before(bound), "worker %d at %v", p.Worker, p.Time)
		assert.Equal(t, Held, m.record(worker).State)
		assert.Equal(t, bound, m.record(worker).Bound(), "what another copy may stamp")
		s := h.Stats()
		assert.Equal(t, uint64(1), s.Clones)
		assert.Equal(t, uint64(1), s.Replacements)
		assert.Regexp(t, "-2-[0-9a-z]{12}$", m.record(h.Worker()).Token, "copies may draw the same random numbers, and have the same generation")
	})
}

func TestCloneWithoutCallsIsNoticedByTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		h := mustAcquire(t, m, fleet, clockAt(0), vm.guard)
		bound := h.Grant().To
		worker := h.Worker()
		vm.clone()
		time.Sleep(span / 2)
		assert.Equal(t, uint64(1), h.Stats().Clones)
		assert.Equal(t, bound, m.record(worker).Bound())
		h.next()
	})
}

func TestCloneInTheMidstOfACallIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
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
		worker, bound := l.Worker(), l.Grant().To
		cloneAt.Store(reads.Load() + 1)
		id, err := g.NextID()
		require.NoError(t, err)
		p := g.Decode(id)
		assert.True(t, p.Worker != worker || !p.Time.Before(bound), "worker %d at %v", p.Worker, p.Time)
	})
}

func TestCloneInTheMidstOfAnAcquisitionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		m.becomes(before(func() {
			m.becomes()
			vm.clone()
		}))
		h := mustAcquire(t, m, fleet, clockAt(0), vm.guard)
		worker, bound := h.Worker(), h.Grant().To
		p := h.next()
		assert.True(t, p.Worker != worker || !p.Time.Before(bound), "worker %d at %v", p.Worker, p.Time)
		assert.Equal(t, uint64(1), h.Stats().Clones)
	})
}

// The other copy goes on with the same token.
func TestCloneDoesNotFreeTheWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		h := mustAcquire(t, m, fleet, clockAt(0), vm.guard)
		h.next()
		before := m.record(h.Worker())
		vm.clone()
		require.ErrorIs(t, h.Release(t.Context()), ErrLost)
		assert.Equal(t, before, m.record(h.Worker()))
	})
}

// The other copy's save of the worker ID may have been answered.
func TestCloneDoesNotTakeBackAnAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		ctx, cancel := context.WithCancel(t.Context())
		m.becomes(loses(1), before(func() {
			vm.clone()
			cancel()
		}))
		_, err := Acquire(ctx, m, &Options{Layout: plain, Clock: clockAt(0), NewStore: true, VMClock: vm.path})
		require.Error(t, err)
		time.Sleep(time.Second)
		assert.Equal(t, Held, m.record(0).State)
		assert.False(t, m.record(0).Bound().IsZero(), "the bound of the other copy")
	})
}

func TestCloneWithLocalCopyEndsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		h := mustAcquire(t, m, fleet, clockAt(0), vm.guard, reuse(ReuseKeep), func(o *Options) { o.LocalCopy = t.TempDir() })
		h.next()
		vm.clone()
		_, err := h.g.NextID()
		require.ErrorIs(t, err, ErrLost)
		<-h.Done()
		assert.ErrorContains(t, h.Err(), "cloned")
	})
}

// The directory was cloned, too: another worker ID of it may be taken by the other copy.
func TestCloneWithAFileStoreEndsTheLease(t *testing.T) {
	vm := newMachine(t)
	l, err := Acquire(t.Context(), File(t.TempDir()), &Options{Layout: fleet, VMClock: vm.path})
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
			vm := newMachine(t)
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

// A lost worker ID is being replaced when the machine is cloned.
func TestCloneOfAReplacementInADirectoryEndsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm := newMemory(), newMachine(t)
		h := mustAcquire(t, m, fleet, clockAt(0), vm.guard, reuse(ReuseKeep), func(o *Options) { o.LocalCopy = t.TempDir() })
		worker := h.Worker()
		m.take(worker, "another")
		m.becomes(before(vm.clone))
		time.Sleep(10 * span)
		_, err := h.g.NextID()
		require.ErrorIs(t, err, ErrLost)
		require.ErrorContains(t, h.Err(), "cloned")
	})
}

// The other copy may go on with the record.
func TestCloneDoesNotChangeTheClockSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, vm, c := newMemory(), newMachine(t), clockAt(0)
		h := mustAcquire(t, m, both, c, vm.guard)
		worker := h.Worker()
		before := m.record(worker)
		vm.clone()
		require.NoError(t, h.bump(t.Context(), h.Grant(), time.Now()))
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
		l, err := Acquire(t.Context(), newMemory(), &Options{Layout: plain, NewStore: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
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
