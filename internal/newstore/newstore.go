// Package newstore makes a lease store, or repairs a store that was wiped. It waits until all holders
// must have stopped.
package newstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// defaultWindow is the default of lease.Options.Window.
const defaultWindow = 3 * time.Second

// Poll is how often Create looks whether another process has done so.
const Poll = 100 * time.Millisecond

// pause is how long a look may take, even if the window is shorter.
const pause = 5 * time.Second

// Whole is what look returns if nothing is missing.
const Whole = ""

// Create calls repair if the same things are missing for two windows. look returns them as a text.
// Meanwhile the windows of all holders whose records are gone end, because they cannot renew. If
// something else is missing, its holder may have renewed until now, so Create waits from then on. It
// does so too if it did not look for a window: another process may have made the store, and it may
// have been wiped again.
//
// Create returns early if look returns Whole or an error. A window of 0 is the default of package
// lease.
func Create(ctx context.Context, window time.Duration, look func(context.Context) (missing string, err error), repair func(context.Context) error) error {
	const most = time.Duration(math.MaxInt64) / 2
	if window < 0 || window > most {
		return fmt.Errorf("%w: the window %v is not within 0 to %v", lease.ErrInvalidOptions, window, most)
	}
	if window == 0 {
		window = defaultWindow
	}
	var begun, looked time.Time
	var missed string
	for {
		missing, err := look(ctx)
		if err != nil || missing == Whole {
			return err
		}
		now := time.Now()
		if missing != missed || passed(looked, now) > max(window, pause) {
			begun, missed = now, missing
		}
		looked = now
		wait := 2*window - time.Since(begun)
		if wait <= 0 {
			return repair(ctx)
		}
		timer := time.NewTimer(min(wait, Poll))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// Missing returns what is missing: the worker IDs that have lost their records and, if err matches
// lease.ErrWiped, the store.
func Missing(lost []int, err error) (string, error) {
	switch {
	case errors.Is(err, lease.ErrWiped):
		return fmt.Sprint("the store, ", slices.Sorted(slices.Values(lost))), nil
	case err != nil || len(lost) == 0:
		return Whole, err
	}
	return fmt.Sprint(slices.Sorted(slices.Values(lost))), nil
}

// passed returns the time from a to b. While a machine is suspended, only the wall clock goes on.
func passed(a, b time.Time) time.Duration { return max(b.Sub(a), b.Round(0).Sub(a.Round(0))) }
