//go:build unix

package redislease

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// redisServer is one that runs until the test ends.
type redisServer struct {
	*servertest.Process
	addr string
}

// startRedis starts one that keeps nothing, unless args say so.
func startRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	path, port := servertest.Program(t, "redis-server", "redis-server"), servertest.Port(t)
	s := &redisServer{addr: fmt.Sprintf("127.0.0.1:%d", port)}
	client := redis.NewClient(&redis.Options{Addr: s.addr, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	args = append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", servertest.Dir(t, ""), "--save", "", "--repl-diskless-sync-delay", "0"}, args...)
	s.Process = servertest.Start(t, servertest.Command{Path: path, Args: args}, func() error {
		err := client.Ping(context.Background()).Err()
		if redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		return err
	})
	return s
}

// options are those of a client that is fit for a store.
func (s *redisServer) options() *redis.Options {
	return &redis.Options{Addr: s.addr, ContextTimeoutEnabled: true}
}

func (s *redisServer) client(t testing.TB) *redis.Client { return newClient(t, s.options()) }

func newClient(t testing.TB, opts *redis.Options) *redis.Client {
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// open opens a store as a process of a fleet does.
func open(addr, space string) (*redis.Client, lease.Store, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, ReadTimeout: time.Minute}) // a slow machine
	opts := &Options{Prefix: space + ":"}
	return client, New(client, opts), Create(context.Background(), client, opts, time.Nanosecond)
}

func TestMain(m *testing.M) {
	logging.Disable() // of the connections that fail on purpose
	if addr := os.Getenv(sequencerEnv); addr != "" {
		runSequencer(addr)
	}
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		_, store, err := open(addr, space)
		return store, err
	}))
}

func fleetServer(t testing.TB) *servertest.Server {
	s := startRedis(t, durable...)
	return &servertest.Server{
		Addr: s.addr,
		Open: func(t testing.TB, addr, space string) lease.Store {
			client, store, err := open(addr, space)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			return store
		},
		Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume, CPU: s.CPU,
	}
}

func TestServer(t *testing.T) { servertest.Run(t, fleetServer(t)) }

func BenchmarkServer(b *testing.B) { servertest.Bench(b, fleetServer(b)) }
