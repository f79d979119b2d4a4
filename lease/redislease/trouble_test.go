//go:build unix && go1.25

package redislease

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/redistest"
)

func TestTroublesNeedNoRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // in memory only
	admin := server.Client(t)
	s := suite(server, 0)
	s.Open = func(addr, space string) (lease.Store, func() error, error) {
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialTimeout: time.Second})
		store, err := New(client, &Options{Prefix: space + ":"})
		return store, client.Close, err
	}
	servertest.Troubles(t, s, servertest.NewHost(t, server.Addr), noMemory(admin), busy(admin), servertest.LosesDisk(s))
}

func TestTooFewReplicasIsATemporaryTrouble(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := redistest.StartReplica(t, server, server.Addr)
	servertest.Troubles(t, suite(server, 1), nil, servertest.Trouble{Name: "TooFewReplicas", Says: []string{ErrReplicas.Error()},
		Begin: func(*testing.T, string) func(*testing.T) {
			replica.Kill()
			return func(*testing.T) { replica.Restart() }
		}})
}

// noMemory is the trouble of a server whose memory is full of other data.
func noMemory(admin *redis.Client) servertest.Trouble {
	set := func(t *testing.T, limit string) {
		servertest.Do(t, admin.ConfigSet(t.Context(), "maxmemory", limit).Err())
	}
	return servertest.Trouble{Name: "NoMemory", Says: []string{"OOM"}, Begin: func(t *testing.T, _ string) func(*testing.T) {
		set(t, "1")
		return func(t *testing.T) { set(t, "0") }
	}}
}

// busy is the trouble of a server that runs a script for too long.
func busy(admin *redis.Client) servertest.Trouble {
	return servertest.Trouble{Name: "RunsAScript", Says: []string{"BUSY"}, Begin: func(t *testing.T, _ string) func(*testing.T) {
		servertest.Do(t, admin.ConfigSet(t.Context(), "busy-reply-threshold", "50").Err())
		o := *admin.Options()
		o.MaxRetries, o.ReadTimeout = -1, -1 // otherwise it is repeated after it was killed
		client, ended := redis.NewClient(&o), make(chan struct{})
		go func() {
			defer close(ended)
			client.Eval(context.Background(), "while true do end", nil)
		}()
		return func(t *testing.T) {
			servertest.Await(t, func() error { return admin.ScriptKill(context.Background()).Err() })
			<-ended
			servertest.Do(t, client.Close())
		}
	}}
}
