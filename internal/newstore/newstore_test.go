package newstore

import (
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

// engine is a store that has been made, or has not.
type engine struct {
	mu    sync.Mutex
	made  time.Time
	err   error
	calls int
}

func (e *engine) whole(context.Context) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	return !e.made.IsZero(), e.err
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
			require.NoError(t, Create(t.Context(), window, e.whole, e.repair))
			require.Equal(t, want, e.made.Sub(begun), "window %v", window)
		})
	}
}

func TestCreateLeavesAStoreThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e := engine{made: begun}
		time.Sleep(time.Second)
		require.NoError(t, Create(t.Context(), 0, e.whole, e.repair))
		require.Equal(t, begun, e.made)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestCreateReturnsSoonAfterAnotherMadeTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e engine
		time.AfterFunc(time.Second, func() { e.repair(t.Context()) })
		begun := time.Now()
		require.NoError(t, Create(t.Context(), time.Hour, e.whole, e.repair))
		require.Equal(t, begun.Add(time.Second), e.made)
		require.LessOrEqual(t, time.Since(begun), time.Second+Poll)
	})
}

func TestCreateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e engine
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, Create(ctx, 0, e.whole, e.repair), context.DeadlineExceeded)
		require.Zero(t, e.made)
	})
}

func TestCreateReturnsTheStoresError(t *testing.T) {
	e := engine{err: errors.New("away")}
	require.ErrorIs(t, Create(t.Context(), 0, e.whole, e.repair), e.err)
	require.Zero(t, e.made)
}

func TestCreateRefusesAWindowThatCannotBe(t *testing.T) {
	for _, window := range []time.Duration{-1, math.MaxInt64/2 + 1} {
		var e engine
		require.ErrorIs(t, Create(t.Context(), window, e.whole, e.repair), lease.ErrInvalidOptions)
		require.Zero(t, e.calls)
	}
}
