package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// lossy is a store with a clock of its own; for a while Save is made, and its answer lost.
type lossy struct {
	r    lease.Record
	lose bool
}

func (s *lossy) Load(context.Context, int, int) (lease.Snapshot, error) {
	snap := lease.Snapshot{Now: time.Now(), OwnClock: true}
	if s.r.Version > 0 {
		snap.Records = []lease.Record{s.r}
	}
	return snap, nil
}

func (s *lossy) Save(_ context.Context, r lease.Record) (lease.Record, error) {
	if r.Version != s.r.Version+1 {
		return r, lease.ErrConflict
	}
	r.Renewed = time.Now()
	s.r = r
	if s.lose {
		return r, errors.New("answer lost")
	}
	return r, nil
}

func TestLeapAfterLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l0 := snowflake.DefaultLayout()
		l0.Epoch = snowflake.UnixEpoch
		var step time.Duration
		s := &lossy{}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := lease.Acquire(ctx, s, &lease.Options{Layout: l0, MaxLeap: time.Second,
			Clock: snowflake.ClockFunc(func() time.Time { return time.Now().Add(step) })})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.lose = true
		time.Sleep(10 * time.Minute)
		step = 9 * time.Minute // the clock leaps
		s.lose = false
		time.Sleep(20 * time.Second)
		if ahead := time.Until(s.r.Bound()); ahead > 3*time.Second+time.Second {
			t.Errorf("MaxLeap 1s and window 3s, and the bound is %v ahead", ahead)
		}
		cancel()
	})
}
