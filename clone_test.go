package snowflake

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clonedLease is a lease on a machine that can be cloned.
type clonedLease struct {
	generation atomic.Uint64
	asked      int
}

var errClone = errors.New("the machine was cloned")

func (l *clonedLease) Grant() Grant {
	return Grant{Worker: 5, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
}

func (l *clonedLease) Terms() terms {
	g := l.Grant()
	return terms{
		Generation: &l.generation,
		Granted:    func() (Grant, uint64) { return g, 0 },
		Extend:     func(context.Context, Grant, time.Time) error { l.asked++; return errClone },
	}
}

func TestGeneratorReturnsNothingOfAWindowOnAClonedMachine(t *testing.T) {
	calls := map[string]func(g *Generator) error{
		"NextID":        func(g *Generator) error { _, err := g.NextID(); return err },
		"NextIDContext": func(g *Generator) error { _, err := g.NextIDContext(t.Context()); return err },
		"Fill":          func(g *Generator) error { _, err := g.Fill(t.Context(), make([]ID, 3)); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			l := &clonedLease{}
			g, err := NewLeased(l, nil)
			require.NoError(t, err)
			for range 100 {
				require.NoError(t, call(g))
			}
			issued := g.Stats().Issued
			l.generation.Store(1)
			for i := range 3 {
				err := call(g)
				require.ErrorIs(t, err, ErrLeaseExpired)
				require.ErrorIs(t, err, errClone)
				assert.Equal(t, i+1, l.asked)
			}
			assert.Equal(t, issued, g.Stats().Issued)
		})
	}
}

// The lease may ask for the floor before it finds that it was cloned.
func TestFloorOfAClonedMachineIsATickOfTheLayout(t *testing.T) {
	l := &clonedLease{}
	g, err := NewLeased(l, nil)
	require.NoError(t, err)
	l.generation.Store(1)
	_, err = g.NextID()
	require.ErrorIs(t, err, errClone)
	assert.WithinDuration(t, time.Now(), g.floor(), 2*time.Hour)
}

// The snapshot is taken while a call chooses its ID: the clock is read before that.
func TestGeneratorLooksAfterTheChoice(t *testing.T) {
	l := &clonedLease{}
	now := func() time.Time {
		l.generation.Add(1)
		return time.Now()
	}
	g, err := NewLeased(l, &Options{Clock: ClockFunc(now)})
	require.NoError(t, err)
	l.generation.Store(0)
	_, err = g.NextID()
	require.ErrorIs(t, err, errClone)
}

// The snapshot is taken while Fill waits for a tick: each copy has the IDs of the ticks before it.
func TestGeneratorReturnsNothingThatItChoseBeforeTheSnapshot(t *testing.T) {
	l := &clonedLease{}
	reads, cloneAt := 0, 0
	now := func() time.Time {
		if reads++; reads == cloneAt {
			l.generation.Store(1)
		}
		return time.Now()
	}
	g, err := NewLeased(l, &Options{Clock: ClockFunc(now)})
	require.NoError(t, err)
	cloneAt = reads + 5
	dst := make([]ID, 20_000) // of five ticks
	n, err := g.Fill(t.Context(), dst)
	require.ErrorIs(t, err, errClone)
	assert.Greater(t, reads, cloneAt)
	assert.Zero(t, n)
	assert.Zero(t, g.Stats().Issued)
}
