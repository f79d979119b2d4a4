package machine

import (
	"context"
	"time"
)

// Sleep sleeps for d, but returns early, with its error, if ctx is done.
func Sleep(ctx context.Context, d time.Duration) error { return Nap(ctx, d, nil) }

// Nap sleeps for d, but returns early if ctx is done or wake has a value.
func Nap(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Jittered shortens a wait by up to an eighth, so that holders that began at once do not
// stay in step.
func Jittered(wait time.Duration) time.Duration { return wait - RandomN(wait/8+1) }

// TakeOut takes the value out of a slot. If ctx has ended it does not try, because select would
// choose at random.
func TakeOut[T any](ctx context.Context, slot <-chan T) (is T, err error) {
	if ctx.Err() != nil {
		return is, ctx.Err()
	}
	select {
	case is = <-slot:
		return is, nil
	case <-ctx.Done():
		return is, ctx.Err()
	}
}

// RandomN returns a random number from 0 to n-1.
func RandomN[N int | time.Duration](n N) N { return N(Dice(int64(n))) }
