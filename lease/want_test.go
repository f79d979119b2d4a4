package lease

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two processes of one owner use one local copy. The second has read the store before the first notes the
// wanted worker ID in the copy, and takes it before the first has saved it in the store. One of them
// gets it.
func TestProcessesWithOneLocalCopyThatWantOneWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		o := &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep, LocalCopy: dir, Clock: clockAt(0), NewStore: true}
		first := &beforeSaving{memory: m}
		proceed, told := make(chan struct{}), make(chan struct{})
		first.before = func() { close(told); <-proceed }
		var a *Lease
		done := make(chan struct{})
		second := &beforeSaving{memory: m, before: func() {
			go func() { defer close(done); a, _ = Acquire(t.Context(), first, o) }()
			<-told
		}}
		b, err := Acquire(t.Context(), second, o)
		require.NoError(t, err)
		close(proceed)
		<-done
		n := 0
		for _, l := range []*Lease{a, b} {
			if l != nil {
				n++
				stopRenewing(l)
			}
		}
		require.Equal(t, 1, n)
	})
}

// If the local copy is empty, Acquire waits for the store until its context ends, and does not ask more
// than twice.
func TestEmptyLocalCopyWaitsForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &counting{memory: newMemory()}
		m.hangs = true
		ctx, cancel := context.WithTimeout(t.Context(), span/2)
		defer cancel()
		_, err := Acquire(ctx, m, &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep, LocalCopy: t.TempDir()})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, m.asked, 2)
	})
}

type counting struct {
	*memory
	asked int
}

func (s *counting) Get(ctx context.Context, key string) (Entry, error) {
	if s.asked++; s.asked > 1000 {
		panic("it is asked without end")
	}
	return s.memory.Get(ctx, key)
}

func (s *counting) List(ctx context.Context, prefix string) ([]Entry, error) {
	s.asked++
	return s.memory.List(ctx, prefix)
}

type beforeSaving struct {
	*memory
	before func()
}

func (s *beforeSaving) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	if before := s.before; before != nil && strings.HasPrefix(key, recordPrefix) {
		s.before = nil
		before()
	}
	return s.memory.Put(ctx, key, old, value)
}
