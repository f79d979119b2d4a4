//go:build go1.25

package idle

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow answers nothing in time.
type slow struct{ closed int }

func (s *slow) Do(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() }
func (s *slow) CloseIdleConnections()                        { s.closed++ }

func TestIdleConnectionsAreClosedAfterATimeout(t *testing.T) {
	pool := new(slow)
	c := Closing(pool)
	do := func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host", nil)
		require.NoError(t, err)
		_, _ = c.Do(req)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	do(t.Context())
	do(late)
	assert.Zero(t, pool.closed)
	do(t.Context())
	do(t.Context())
	assert.Equal(t, 1, pool.closed)

	var other Client = struct{ Client }{pool} // it has no such method
	assert.Equal(t, other, Closing(other))
}

func TestClientIsMadeAnewAfterATimeout(t *testing.T) {
	made := 0
	c := Renewing(func() Client { made++; return new(slow) })
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host", nil)
		require.NoError(t, err)
		_, _ = c.Do(req)
	}
	assert.Equal(t, 3, made)
}
