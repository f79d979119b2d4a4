//go:build go1.25

package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// The context of a request ends at its deadline, or with its parent.
func TestContextEndsAtTheEarlierDeadline(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), given)
			defer cancel()
			begun := time.Now()
			within(time.Minute, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				ends, ok := r.Context().Deadline()
				assert.True(t, ok)
				assert.Equal(t, want, ends.Sub(begun))
				assert.NoError(t, r.Context().Err())
				<-r.Context().Done()
				assert.Equal(t, want, time.Since(begun))
				assert.ErrorIs(t, r.Context().Err(), context.DeadlineExceeded)
			})).ServeHTTP(nil, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		})
	}
}
