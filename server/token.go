package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Token is a bearer token and the quota of its client. A client sends the Secret in the header
// Authorization: Bearer SECRET.
type Token struct {
	Secret string // an empty one matches no request
	Name   string // of the client, for log, metrics and its quota; tokens may have the same name

	// IDsPerSecond bounds the IDs of all clients of the name together. A call that asks for more
	// than are left is refused with resource_exhausted, and Retry-After says when to repeat it; a
	// stream is slowed down. If it is 0, there is no limit.
	IDsPerSecond int

	// Burst bounds the IDs that are issued at once, after a time without IDs. A call that asks for
	// more is refused with invalid_argument. The default is IDsPerSecond, which is one second's
	// IDs.
	Burst int
}

// authorized returns an error if the request has no valid token.
func (s *Server) authorized(next http.Handler) http.Handler {
	if s.o.Tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		tokens := s.o.Tokens()
		i := slices.IndexFunc(tokens, func(want Token) bool { return same(got, want.Secret) })
		if !strings.EqualFold(scheme, "Bearer") || i < 0 {
			s.refuse(w, r, errToken)
			return
		}
		q := of(r.Context())
		q.token, q.quota = tokens[i], s.quotas.get(tokens[i])
		next.ServeHTTP(w, r)
	})
}

// same compares in constant time. An empty secret matches nothing.
func same(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}

// quotas are the limits of clients, by their names.
type quotas struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

// get returns the limit of a token's client, or nil. If the limit has changed, the IDs that were
// left remain.
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

// spend takes n IDs from the client's quota.
func (q *request) spend(n int) error {
	if q.quota == nil {
		return nil
	}
	now := time.Now()
	if q.quota.AllowN(now, n) {
		return nil
	}
	missing := float64(n) - q.quota.TokensAt(now) // negative tokens: streams have reserved IDs
	return quotaError(max(time.Millisecond, time.Duration(missing/float64(q.quota.Limit())*float64(time.Second))))
}

// burst returns how many IDs the client's quota allows at once.
func (q *request) burst() int {
	if q.quota == nil {
		return math.MaxInt
	}
	return q.quota.Burst()
}

// waitForQuota waits until the client's quota has n IDs.
func (q *request) waitForQuota(ctx context.Context, n int) error {
	if q.quota == nil {
		return nil
	}
	if err := q.quota.WaitN(ctx, n); err != nil {
		return errors.Join(context.DeadlineExceeded, err) // the IDs would come after the deadline
	}
	return nil
}
