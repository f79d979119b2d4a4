//go:build go1.25

package server_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// A stream may wait for its quota, even for its first IDs, for longer than the server waits for a
// client, but only until the server drains.
func TestStreamWaitsForItsQuotaLongerThanTimeout(t *testing.T) {
	for _, protocol := range []string{"gRPC", "gRPC-Web", "Connect, JSON", "Connect, HTTP/2"} {
		inFakeTime(t, func(t *testing.T) {
			s, dial := serveInMemory(t, generator(t), &server.Options{Timeout: 10 * time.Second, Tokens: func() []server.Token {
				return []server.Token{{Secret: "a", Name: "web", IDsPerSecond: 5, Burst: 100}}
			}})
			c := protocols(t, inMemory, dial)[protocol]
			ctx, info := connect.NewClientContext(t.Context())
			info.RequestHeader().Set("Authorization", "Bearer a")
			_, err := c.Batch(ctx, &pb.BatchRequest{N: 100})
			require.NoError(t, err, protocol)
			_, sizes, err := take(ctx, c, &pb.StreamRequest{N: 300, Batch: 100})
			require.NoError(t, err, protocol)
			assert.Equal(t, []int{100, 100, 100}, sizes, protocol)
			begun := time.Now()
			time.AfterFunc(15*time.Second, s.Drain)
			_, _, err = take(ctx, c, &pb.StreamRequest{N: 300, Batch: 100})
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%s: %v", protocol, err)
			assert.Equal(t, 15*time.Second, time.Since(begun), protocol)
		})
	}
}
