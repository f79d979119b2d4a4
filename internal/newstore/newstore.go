// Package newstore makes what a lease store keeps its records in, without taking a store that was
// wiped for a new one.
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

// Poll is how often Create looks whether another process has made the store.
const Poll = 100 * time.Millisecond

// Create calls make if exists still returns false after two windows. In that time the holders of a
// store that was wiped come to the end of their windows, because none can renew. Create returns
// early if exists returns true or an error. A window of 0 is lease's default.
func Create(ctx context.Context, window time.Duration, exists func(context.Context) (bool, error), make func(context.Context) error) error {
	const most = time.Duration(math.MaxInt64) / 2
	if window < 0 || window > most {
		return fmt.Errorf("%w: the window %v is not within 0 to %v", lease.ErrInvalidOptions, window, most)
	}
	if window == 0 {
		window = defaultWindow
	}
	for begun := time.Now(); ; {
		if there, err := exists(ctx); there || err != nil {
			return err
		}
		wait := 2*window - time.Since(begun)
		if wait <= 0 {
			return make(ctx)
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
