package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// lossy is a store with a clock of its own; for a while Save is made, and its answer lost.
type lossy struct {
	mu   sync.Mutex
	r    lease.Record
	lose atomic.Bool
}

func (s *lossy) Load(context.Context, int, int) (lease.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := lease.Snapshot{Now: time.Now(), OwnClock: true}
	if s.r.Version > 0 {
		snap.Records = []lease.Record{s.r}
	}
	return snap, nil
}

func (s *lossy) Save(_ context.Context, r lease.Record) (lease.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Version != s.r.Version+1 {
		return r, lease.ErrConflict
	}
	r.Renewed = time.Now()
	s.r = r
	if s.lose.Load() {
		return r, errors.New("answer lost")
	}
	return r, nil
}

func TestLeapAfterLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l0 := snowflake.DefaultLayout()
		l0.Epoch = snowflake.UnixEpoch
		var step atomic.Int64
		s := &lossy{}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := lease.Acquire(ctx, s, &lease.Options{Layout: l0, MaxLeap: time.Second,
			Clock: snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(step.Load())) })})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.lose.Store(true)
		time.Sleep(10 * time.Minute)
		step.Store(int64(9 * time.Minute)) // the clock leaps
		s.lose.Store(false)
		time.Sleep(20 * time.Second)
		snap, _ := s.Load(ctx, 0, 0)
		if ahead := time.Until(snap.Records[0].Bound()); ahead > 3*time.Second+time.Second {
			t.Errorf("MaxLeap 1s and window 3s, and the bound is %v ahead", ahead)
		}
		cancel()
	})
}
