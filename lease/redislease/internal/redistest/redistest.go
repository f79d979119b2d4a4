//go:build unix && go1.25

// Package redistest starts Redis servers for the tests of this module.
package redistest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// Server is a Redis server that runs until the test ends.
type Server struct {
	*servertest.Process
	Addr string
}

// Start starts a server. It saves nothing to disk, unless args say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	addr, p := servertest.Redis(t, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...)
	return &Server{p, addr}
}

// Options returns options for a client that a store accepts.
func (s *Server) Options() *redis.Options {
	return &redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true}
}

// Client returns a client that is closed when the test ends.
func (s *Server) Client(t testing.TB) *redis.Client { return NewClient(t, s.Options()) }

// NewClient returns a client that is closed when the test ends.
func NewClient(t testing.TB, opts *redis.Options) *redis.Client {
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// User creates a user with these rights, and returns a client.
func (s *Server) User(t testing.TB, admin *redis.Client, name string, rights ...string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">pass"}
	for _, right := range rights {
		args = append(args, right)
	}
	servertest.Do(t, admin.Do(t.Context(), args...).Err())
	opts := s.Options()
	opts.Username, opts.Password = name, "pass"
	return NewClient(t, opts)
}

// StartReplica starts a replica of the master at addr, and waits until it has the master's data.
func StartReplica(t testing.TB, master *Server, addr string) *Server {
	t.Helper()
	replica := Start(t, "--replicaof", strings.Replace(addr, ":", " ", 1))
	InStep(t, master, replica)
	return replica
}

// InStep waits until a replica has all data of its master.
func InStep(t testing.TB, master, replica *Server) {
	t.Helper()
	from, to := master.Client(t), replica.Client(t)
	Eventually(t, "the replica is in step", func() bool {
		now := time.Now().String()
		from.Set(context.Background(), "now", now, 0)
		time.Sleep(5 * time.Millisecond)
		return to.Get(context.Background(), "now").Val() == now
	})
}

// Eventually waits until is returns true.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	servertest.Await(t, func() error {
		if !is() {
			return errors.New("not yet: " + what)
		}
		return nil
	})
}

// Cluster consists of two masters with a replica each.
type Cluster struct {
	*redis.ClusterClient
	Slot     int           // of the key
	From, To *redis.Client // the master that has the slot, and the other one
}

// StartCluster starts a cluster for a key.
func StartCluster(t testing.TB, key string) *Cluster {
	t.Helper()
	ctx := t.Context()
	var addrs []string
	var nodes []*redis.Client
	for i := range 4 {
		bus := strconv.Itoa(servertest.Port(t))
		server := Start(t, "--cluster-enabled", "yes", "--cluster-port", bus)
		addrs, nodes = append(addrs, server.Addr), append(nodes, server.Client(t))
		if i > 0 {
			host, port, _ := net.SplitHostPort(server.Addr)
			require.NoError(t, nodes[0].Do(ctx, "CLUSTER", "MEET", host, port, bus).Err())
		}
	}
	require.NoError(t, nodes[0].ClusterAddSlotsRange(ctx, 0, 8191).Err())
	require.NoError(t, nodes[1].ClusterAddSlotsRange(ctx, 8192, 16383).Err())
	slot := servertest.Must(nodes[0].ClusterKeySlot(ctx, key).Result())(t)
	for i, master := range nodes[:2] {
		id := myID(t, master)
		Eventually(t, "the replica follows", func() bool { return nodes[2+i].ClusterReplicate(ctx, id).Err() == nil })
	}
	Eventually(t, "the cluster is ready", func() bool {
		ready := true
		for i, node := range nodes {
			info := node.ClusterInfo(ctx).Val()
			ready = ready && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:4") &&
				(i >= 2 || strings.Contains(node.Info(ctx, "replication").Val(), "state=online"))
		}
		return ready
	})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	from := int(slot) / 8192
	return &Cluster{client, int(slot), nodes[from], nodes[1-from]}
}

// myID returns a node's ID in the cluster.
func myID(t testing.TB, node *redis.Client) string {
	t.Helper()
	return servertest.Must(node.Do(t.Context(), "CLUSTER", "MYID").Text())(t)
}

// Move moves the slot to the other master, and calls between after each step.
func (c *Cluster) Move(t testing.TB, key string, between func()) {
	t.Helper()
	ctx := t.Context()
	from, to := myID(t, c.From), myID(t, c.To)
	host, port, _ := net.SplitHostPort(c.To.Options().Addr)
	for _, step := range []struct {
		at   *redis.Client
		args []any
	}{
		{c.To, []any{"CLUSTER", "SETSLOT", c.Slot, "IMPORTING", from}},
		{c.From, []any{"CLUSTER", "SETSLOT", c.Slot, "MIGRATING", to}},
		{c.From, []any{"MIGRATE", host, port, key, 0, 60000}},
		{c.To, []any{"CLUSTER", "SETSLOT", c.Slot, "NODE", to}},
		{c.From, []any{"CLUSTER", "SETSLOT", c.Slot, "NODE", to}},
	} {
		servertest.Do(t, step.at.Do(ctx, step.args...).Err())
		between()
	}
	c.From, c.To = c.To, c.From
}

// RedirectInCircles makes each master redirect to the other one, for good. The key must not exist.
func (c *Cluster) RedirectInCircles(t testing.TB) {
	t.Helper()
	servertest.Do(t, c.From.Do(t.Context(), "CLUSTER", "SETSLOT", c.Slot, "NODE", myID(t, c.To)).Err())
}
