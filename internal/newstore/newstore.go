// Package newstore makes a lease store, or repairs one that was wiped, when no holder can be left.
package newstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// defaultWindow is that of lease.Options.
const defaultWindow = 3 * time.Second

// Poll is how often Create looks whether another process has done so.
const Poll = 100 * time.Millisecond

// Create calls repair if whole still returns false after two windows. In that time the holders whose
// records are gone come to the end of their windows, because they cannot renew. Create returns early
// if whole returns true or an error. A window of 0 is lease's default.
func Create(ctx context.Context, window time.Duration, whole func(context.Context) (bool, error), repair func(context.Context) error) error {
	const most = time.Duration(math.MaxInt64) / 2
	if window < 0 || window > most {
		return fmt.Errorf("%w: the window %v is not within 0 to %v", lease.ErrInvalidOptions, window, most)
	}
	if window == 0 {
		window = defaultWindow
	}
	for begun := time.Now(); ; {
		if ok, err := whole(ctx); ok || err != nil {
			return err
		}
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
