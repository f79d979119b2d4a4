//go:build unix && go1.25

package s3lease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// When open connections go dead, while new ones work, only the first request times out.
func TestIdleConnectionsThatAreHalfOpenAreClosed(t *testing.T) {
	t.Parallel()
	s := start(t)
	proxy := servertest.NewProxy(t, s.addr)
	store := open(t, proxy.Addr(), in("space"))
	for i := range 64 {
		servertest.Put(t, store, fmt.Sprint("worker/", i), "", "value")
	}
	// It reads several objects at once, so that several connections are idle.
	servertest.Must(store.List(t.Context(), "worker/"))(t)
	proxy.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := store.Get(ctx, "worker/1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = store.Get(t.Context(), "worker/1")
	require.NoError(t, err)
}
