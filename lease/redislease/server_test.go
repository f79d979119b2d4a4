//go:build unix

package redislease

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/redistest"
)

// open opens a store as a process of a fleet does.
func open(addr, space string) (*redis.Client, lease.Store, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: time.Minute}) // the machine may be slow
	store, err := New(client, &Options{Prefix: space + ":"})
	return client, store, err
}

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		_, store, err := open(addr, space)
		return store, err
	}))
}

func fleetServer(t testing.TB) *servertest.Server {
	s := redistest.Start(t, durable...)
	return &servertest.Server{
		Addr: s.Addr,
		Open: func(t testing.TB, addr, space string) lease.Store {
			client, store, err := open(addr, space)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			return store
		},
		Wipes: map[string]func(testing.TB, string){"Del": func(t testing.TB, space string) {
			if err := s.Client(t).Del(t.Context(), space+":leases").Err(); err != nil {
				t.Fatal(err)
			}
		}},
		Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume, CPU: s.CPU,
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, fleetServer(t))
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, fleetServer(b)) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, fleetServer(b)) }
