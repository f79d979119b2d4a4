//go:build go1.25

package conn

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// A connection's time-out is the context's deadline, but may be just before the end of the context.
func TestTimeoutIsTheContextsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
	defer cancel()
	_, err := Call(ctx, Key{}, func() (int, error) { return 0, os.ErrDeadlineExceeded })
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = Call(ctx, Key{}, func() (int, error) { return 0, os.ErrDeadlineExceeded })
	assert.Equal(t, os.ErrDeadlineExceeded, err, "long before the deadline")
}

func TestUnfitClientsAreRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{ContextTimeoutEnabled: true})
	plain, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{})
	defer func() { _, _, _ = ring.Close(), plain.Close(), cluster.Close() }()
	for _, test := range []struct {
		client redis.UniversalClient
		says   string
	}{
		{nil, "nil"},
		{(*redis.Client)(nil), "nil"},
		{(*redis.ClusterClient)(nil), "nil"},
		{(*redis.Ring)(nil), "Ring"},
		{ring, "Ring"},
		{struct{ redis.UniversalClient }{plain}, "*redis.Client"},
		{plain, "ContextTimeoutEnabled"},
		{cluster, "ContextTimeoutEnabled"},
	} {
		err := Key{Client: test.client}.Check()
		assert.ErrorIs(t, err, lease.ErrInvalidOptions, "%T", test.client)
		assert.ErrorContains(t, err, test.says, "%T", test.client)
	}
	for _, fit := range []redis.UniversalClient{redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}),
		redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true})} {
		assert.NoError(t, Key{Client: fit}.Check())
		fit.Close()
	}
}
