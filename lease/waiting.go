package lease

import (
	"context"
	"time"
)

func sleep(ctx context.Context, d time.Duration) error { return nap(ctx, d, nil) }

// nap sleeps for d, but returns early if ctx is done or wake has a value.
func nap(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := newTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// jittered shortens a wait by up to an eighth, so that holders that began at once do not
// stay in step.
func jittered(wait time.Duration) time.Duration { return wait - randomN(wait/8+1) }

// toEnd shortens a wait from now that goes far past end, a window's, so that the log says at once
// that no IDs are issued.
func toEnd(wait time.Duration, end, now time.Time) time.Duration {
	if left := end.Sub(now); left > 0 {
		return min(wait, left+left/7+time.Millisecond) // even jittered, it is not shorter than left
	}
	return wait
}

// takeOut takes what is in a slot. If ctx has ended it does not try, because select would choose at
// random.
func takeOut[T any](ctx context.Context, slot <-chan T) (is T, err error) {
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

// randomN returns a random number from 0 to n-1.
func randomN[N int | time.Duration](n N) N { return N(dice(int64(n))) }
