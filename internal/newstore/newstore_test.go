package newstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// engine is a store. It exists if made is not zero.
type engine struct {
	mu    sync.Mutex
	made  time.Time
	lost  string // what is missing; empty: all
	err   error
	calls int
}

func (e *engine) look(context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if !e.made.IsZero() {
		return Whole, e.err
	}
	return cmp.Or(e.lost, "all"), e.err
}

func (e *engine) lose(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made, e.lost = time.Time{}, what
}

func (e *engine) repair(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made = time.Now()
	return nil
}

func TestCreateWaitsForTwoWindows(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{
		0:                      6 * time.Second,
		1:                      2,
		time.Minute:            2 * time.Minute,
		130 * time.Millisecond: 260 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			var e engine
			begun := time.Now()
			require.NoError(t, Create(t.Context(), window, e.look, e.repair))
			require.Equal(t, want, e.made.Sub(begun), "window %v", window)
		})
	}
}

func TestCreateDoesNotChangeAnExistingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e := engine{made: begun}
		time.Sleep(time.Second)
		require.NoError(t, Create(t.Context(), 0, e.look, e.repair))
		require.Equal(t, begun, e.made)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestCreateReturnsSoonIfAnotherProcessMakesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e engine
		time.AfterFunc(time.Second, func() { e.repair(t.Context()) })
		begun := time.Now()
		require.NoError(t, Create(t.Context(), time.Hour, e.look, e.repair))
		require.Equal(t, begun.Add(time.Second), e.made)
		require.LessOrEqual(t, time.Since(begun), time.Second+Poll)
	})
}

func TestCreateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e engine
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, Create(ctx, 0, e.look, e.repair), context.DeadlineExceeded)
		require.Zero(t, e.made)
	})
}

func TestCreateReturnsTheStoresError(t *testing.T) {
	e := engine{err: errors.New("away")}
	require.ErrorIs(t, Create(t.Context(), 0, e.look, e.repair), e.err)
	require.Zero(t, e.made)
}

func TestCreateRefusesAnImpossibleWindow(t *testing.T) {
	for _, window := range []time.Duration{-1, math.MaxInt64/2 + 1} {
		var e engine
		require.ErrorIs(t, Create(t.Context(), window, e.look, e.repair), lease.ErrInvalidOptions)
		require.Zero(t, e.calls)
	}
}

// A record that is lost while Create waits for another one may have a holder that renewed until then.
func TestCreateWaitsAgainIfMoreIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine{lost: "worker 1"}
		begun := time.Now()
		const late = 2*time.Minute - time.Second
		time.AfterFunc(late, func() { e.lose("workers 1 and 2") })
		require.NoError(t, Create(t.Context(), time.Minute, e.look, e.repair))
		require.GreaterOrEqual(t, e.made.Sub(begun), late+2*time.Minute)
		require.LessOrEqual(t, e.made.Sub(begun), late+2*time.Minute+Poll)
	})
}

// While this process stands still, another one may make the store, and somebody may wipe it again.
func TestCreateWaitsAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e engine
		begun, paused := time.Now(), false
		look := func(ctx context.Context) (string, error) {
			missing, err := e.look(ctx)
			if !paused && time.Since(begun) >= time.Minute {
				paused = true
				time.Sleep(time.Hour)
			}
			return missing, err
		}
		require.NoError(t, Create(t.Context(), time.Minute, look, e.repair))
		require.GreaterOrEqual(t, e.made.Sub(begun), time.Hour+3*time.Minute)
	})
}
