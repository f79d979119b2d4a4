//go:build unix && go1.25

package redislease

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/redistest"
)

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, opener(0)))
}

// opener opens a store for a process of a fleet.
func opener(replicas int) servertest.Opener {
	return func(addr, space string) (lease.Store, func() error, error) {
		// The machine may be slow.
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
		store, err := New(client, &Options{Prefix: space + ":", Replicas: replicas})
		return store, client.Close, err
	}
}

// durable starts a server whose data survives a crash.
func durable(t testing.TB) *redistest.Server {
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
}

// suite returns the server for the suites.
func suite(s *redistest.Server, replicas int) *servertest.Server {
	return &servertest.Server{
		Process: s.Process, Addr: s.Addr, Open: opener(replicas),
		Wipes: map[string]func(testing.TB, string){"Del": func(t testing.TB, space string) {
			servertest.Do(t, s.Client(t).Del(t.Context(), space+":leases").Err())
		}},
		Garble: func(t testing.TB, space, entry string) {
			c, key := s.Client(t), space+":leases"
			servertest.Do(t, c.ZRemRangeByLex(t.Context(), key, "["+entry+" ", "("+entry+"!").Err(),
				c.ZAdd(t.Context(), key, redis.Z{Member: entry + " cut"}).Err())
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := suite(durable(t), 0)
	servertest.Store(t, s)
	servertest.Calm(t, s)
}

func TestStoreWithAReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := redistest.StartReplica(t, server, server.Addr)
	t.Run("ReplicaItselfIsRefused", func(t *testing.T) {
		store := opened(t, replica.Client(t), nil)
		refuses(t, store, lease.ErrAway, "READONLY", replica.Addr)
	})
	servertest.Store(t, suite(server, 1))
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Faults(t, suite(durable(t), 0))
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, suite(durable(b), 0)) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, suite(durable(b), 0)) }
