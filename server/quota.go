package server

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// quotas holds the limiters of clients, by the names of their tokens.
type quotas struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

// charged sets the quota of requests, by their token.
func (q *quotas) charged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := of(r.Context())
		c.quota.Limiter = q.get(c.token)
		next.ServeHTTP(w, r)
	})
}

// get returns the limiter of a token's client, or nil. If the limits have changed, the IDs that are
// left stay.
func (q *quotas) get(t Token) *rate.Limiter {
	if t.IDsPerSecond == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, burst := rate.Limit(t.IDsPerSecond), cmp.Or(t.Burst, t.IDsPerSecond)
	l := q.of[t.Name]
	if l == nil {
		l = rate.NewLimiter(limit, burst)
		q.of[t.Name] = l
	} else if l.Limit() != limit || l.Burst() != burst {
		l.SetLimit(limit)
		l.SetBurst(burst)
	}
	return l
}

// quota limits the IDs of a client.
type quota struct{ *rate.Limiter } // nil means no limit

// spend takes n IDs.
func (q quota) spend(n int) error {
	now := time.Now()
	if q.Limiter == nil || q.AllowN(now, n) {
		return nil
	}
	missing := float64(n) - q.TokensAt(now) // negative tokens: streams have reserved IDs
	f := errQuota
	f.retry = max(time.Millisecond, time.Duration(missing/float64(q.Limit())*float64(time.Second)))
	return f
}

// wait waits until the client may have n IDs, and takes them.
func (q quota) wait(ctx context.Context, n int) error {
	if q.Limiter == nil {
		return nil
	}
	err := q.WaitN(ctx, n)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errors.Join(context.DeadlineExceeded, err) // the wait would exceed the deadline
}

// largest returns the maximum number of IDs for the client at once.
func (q quota) largest() int {
	if q.Limiter == nil {
		return math.MaxInt
	}
	return q.Burst()
}
