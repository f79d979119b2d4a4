// Package redislease leases worker IDs from a Redis server.
//
//	client := redis.NewClient(&redis.Options{
//		Addr: "redis:6379", ContextTimeoutEnabled: true, DialTimeout: time.Second,
//	})
//	store, err := redislease.New(client, nil)
//	...
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// Each process leases a worker ID and renews it three times in a window, with one round trip. It
// generates IDs in tens of nanoseconds each, without Redis. Package sequencer, in a subdirectory,
// gets complete IDs from Redis instead.
//
// # Storage
//
// All entries are in one key, the sorted set snowflake:leases. A member consists of an entry's key,
// a version, the server's time in microseconds, and the value, which is JSON. To list them, use
// redis-cli zrange snowflake:leases 0 -1. Each Put writes a random version, so versions do not
// repeat even after FLUSHALL.
//
// # The server
//
// It must be Redis 5 or later, or Valkey: the scripts read the server's clock before they write,
// which earlier versions refuse. (The package is tested with Redis 7.0.) It may be one server, a
// primary with replicas, or a cluster. Entries must survive on it:
//
//   - Set appendonly yes and appendfsync always. With everysec, nothing is lost if Redis is killed,
//     but up to about two seconds of writes if the machine fails. With snapshots alone, everything
//     since the last snapshot is lost.
//   - Set maxmemory-policy to noeviction, or to a policy that begins with volatile: the key has no
//     expiry.
//
// Each lease reads these settings with CONFIG GET, and logs a warning if they differ.
//
// If the server has users, the process needs the keys snowflake:* and the commands eval, evalsha,
// time, zrangebylex, zadd and zrem; with [Options.Replicas] also wait; for a Sequencer eval,
// evalsha, time, get, set and info. To check the settings, a lease needs config|get.
//
// # Hazards
//
// The store recovers if the whole key is lost (by FLUSHALL, eviction or a restart without
// persistence): see package lease.
//
// HAZARD: Redis replicates asynchronously, so a failover loses the acknowledged writes that the new
// master did not have. A crash without appendfsync always, and a restored backup, also lose writes.
// If the acquisition or the last renewals of a worker ID are lost, another process may acquire the
// worker ID while its holder continues. Both may then issue the same IDs, up to the lost bound. If
// clocks are right, this lasts until the holder's next renewal, and at most a window after its last
// acknowledged one.
//
// HAZARD: if a replaced master still serves some holders, they repeat IDs for longer. Stop such a
// master with min-replicas-to-write 1 and a short min-replicas-max-lag. Or set [Options.Replicas]:
// then each save and load waits for replicas, in the same round trip, and no holder uses a record
// that too few replicas acknowledged, so its window ends. Both make a loss rare, but do not rule it
// out, because a failover may choose another replica. For certainty, use a store with consensus,
// such as etcdlease or zklease, or a database with synchronous replication.
//
// HAZARD: a fleet needs one Redis server and one prefix. If it is spread over two, each worker ID
// exists twice.
//
// # Outages
//
// While Redis does not answer, holders continue to the end of their windows; afterwards they
// recover by themselves. Set the client's DialTimeout to about a second, so that it gives up
// connections that hang.
//
// go-redis retries a connection until its time is up, and then loses the reason. To get the cause
// (such as connection refused), the store dials once more after such a failure, for 50 ms at most,
// except with a *redis.ClusterClient.
//
// After a call that timed out, the store sends a PING on each idle connection of the client, and
// the client closes those that do not answer within a second. go-redis does not do this itself, so
// each connection that the network has lost would make a renewal time out.
//
// go-redis logs failed connections to stderr, for the whole process, although it returns the
// errors, too. This package turns the log off; redis.SetLogger turns it on.
package redislease
