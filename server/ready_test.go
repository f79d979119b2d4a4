package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
)

// A generator that waits for an answer of the store looks like a busy generator. So /readyz asks the lease first: once the lease is
// away, the server is not ready, says so at once, and logs why.
func TestServerWhoseLeaseIsAwayIsNotReady(t *testing.T) {
	for why, takeAway := range map[string]func(*link.Link, *lease.Lease){
		"the lease's window ended at": func(network *link.Link, _ *lease.Lease) {
			network.Cut(true)
			time.Sleep(time.Minute)
		},
		"lease: released": func(_ *link.Link, l *lease.Lease) { _ = l.Release(context.Background()) },
	} {
		inFakeTime(t, func(t *testing.T) {
			network := link.To(lease.File(t.TempDir()))
			l, err := lease.Acquire(t.Context(), network, &lease.Options{Window: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			defer func() { _ = l.Release(context.Background()) }()
			gen, err := snowflake.NewLeased(broken{func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, nil)
			require.NoError(t, err)
			var log strings.Builder
			s, err := server.New(gen, &server.Options{Lease: l, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			holds := func(status int, after time.Duration) {
				t.Helper()
				begun, w := time.Now(), httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
				if took := time.Since(begun); w.Code != status || took != after {
					t.Errorf("%s: %d after %v, not %d after %v", why, w.Code, took, status, after)
				}
			}
			holds(http.StatusOK, time.Second)
			takeAway(network, l)
			holds(http.StatusServiceUnavailable, 0)
			assert.Contains(t, log.String(), why, "the log does not say %q:\n%s", why, &log)
		})
	}
}
