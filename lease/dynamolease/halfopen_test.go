//go:build unix && go1.25

package dynamolease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// If nothing arrives on open connections any more, while new ones work, only the first request
// costs its time.
func TestIdleConnectionsThatAreHalfOpenAreClosed(t *testing.T) {
	t.Parallel()
	s := start(t)
	proxy := servertest.NewProxy(t, s.addr)
	store := servertest.Client(t, proxy.Addr(), "space")
	for i := range 64 {
		servertest.Put(t, store, fmt.Sprint("worker/", i), "", "value")
	}
	var at sync.WaitGroup // so that several connections are idle
	for i := range 64 {
		at.Go(func() { _, _ = store.Get(t.Context(), fmt.Sprint("worker/", i)) })
	}
	at.Wait()
	proxy.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := store.Get(ctx, "worker/1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = store.Get(t.Context(), "worker/1")
	require.NoError(t, err)
}
