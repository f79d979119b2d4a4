package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// quotas are the limits of clients, by their names.
type quotas struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

// get returns the limit of a token's client, or nil. A token may change its limit: then what was left counts on.
func (q *quotas) get(t Token, maxIDs int) *rate.Limiter {
	if t.IDsPerSecond == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.of[t.Name]
	limit, burst := rate.Limit(t.IDsPerSecond), max(t.IDsPerSecond, maxIDs)
	switch {
	case l == nil && q.of == nil:
		q.of = map[string]*rate.Limiter{}
		fallthrough
	case l == nil:
		l = rate.NewLimiter(limit, burst)
		q.of[t.Name] = l
	case l.Limit() != limit:
		l.SetLimit(limit)
		l.SetBurst(burst)
	}
	return l
}

var errQuota = errors.New("the token's IDs per second are used up: call again, or ask for fewer IDs")

// spend takes n IDs from the client's quota.
func (q *request) spend(n int) error {
	if q.quota != nil && !q.quota.AllowN(time.Now(), n) {
		return errQuota
	}
	return nil
}

// waitForQuota waits until the client's quota has n IDs.
func (q *request) waitForQuota(ctx context.Context, n int) error {
	if q.quota == nil {
		return nil
	}
	if err := q.quota.WaitN(ctx, n); err != nil {
		return errors.Join(context.DeadlineExceeded, err) // the IDs come after the deadline
	}
	return nil
}
