// Package redislease gives out worker IDs with a Redis server that a fleet shares.
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
// Each process leases a worker ID, renews it with one round trip, three times in a
// window, and makes IDs on its own, in tens of nanoseconds each. Package sequencer, in a
// subdirectory, is for programs that want whole IDs from Redis instead.
//
// # What is stored
//
// All entries are in one key, the sorted set snowflake:leases. A member is an entry: its key,
// a version, the server's time in microseconds, and the value, which is JSON. To see them, use
// redis-cli zrange snowflake:leases 0 -1. Each Put writes a random version, so no version comes
// again, also after FLUSHALL.
//
// # The server
//
// It must be Redis 5 or later, or Valkey: the scripts read the server's clock before they
// write, which earlier versions refuse. (It is tested with Redis 7.0.) It may be one server, a
// primary with replicas, or a cluster. Saved entries must survive on it:
//
//   - Set appendonly yes and appendfsync always. With everysec, nothing is lost if Redis is
//     killed, and up to about two seconds if the machine fails. With snapshots alone,
//     everything since the last snapshot is lost.
//   - Set maxmemory-policy to noeviction, or to a policy that begins with volatile: the key
//     has no expiry.
//
// Each lease asks the server for these settings with CONFIG GET, and warns of others.
//
// If the server has users, the process needs the keys snowflake:* and the commands eval, evalsha,
// time, zrangebylex, zadd and zrem; with [Options.Replicas] also wait; for a Sequencer eval,
// evalsha, time, get, set and info. With the right config|get, a lease can warn of the server's
// settings.
//
// # Hazards
//
// If the key is lost as a whole (by FLUSHALL, eviction or a restart without persistence), the
// store heals, as package lease says.
//
// HAZARD: Redis replicates asynchronously, so a failover loses the writes that the master
// acknowledged and the new master did not have yet. A crash without appendfsync always, and
// a restored backup, also lose writes. If the acquisition or the last renewals of a worker
// ID are lost, the worker ID may go to another process while its holder continues. Both may
// then issue the same IDs, up to the bound that was lost. If clocks are right, this is at
// most a window after the holder's last acknowledged renewal, and ends when the holder
// notices, at its next renewal.
//
// HAZARD: if a master that was replaced still serves the holders that reach it, they notice
// nothing, and repeat IDs for longer. Let min-replicas-to-write 1 and a short
// min-replicas-max-lag stop such a master. Or set [Options.Replicas]: then each save and load waits
// for replicas, in the same round trip. No holder uses a record that too few replicas acknowledged,
// so the holder's window ends. Both make a loss rare. Neither rules it out, because a failover may
// choose another replica. If you need certainty, use a store with consensus, such as etcdlease or
// zklease, or a database with synchronous replication.
//
// HAZARD: a fleet needs one Redis server and one prefix. If it is spread over two, each worker ID
// exists twice.
//
// # Outages
//
// When Redis does not answer, holders continue to the end of their windows, and recover by
// themselves. Give the client a DialTimeout of a second or so, so that it gives up
// connections that hang.
//
// go-redis dials again and again until its time is up, and then forgets the reason. To give
// errors a cause (such as connection refused), the store dials once more after such a
// failure, for 50 ms at most; it does not with a *redis.ClusterClient.
//
// After a call that timed out, the store sends a PING on each idle connection of the client, and
// the client closes those that do not answer within a second. Otherwise each connection that the
// network has lost would cost a renewal its time, one after the other: go-redis does not look.
//
// go-redis logs failed connections to stderr, for the whole process, though it returns the
// errors too. If a program imports this package, it does not; redis.SetLogger turns it on.
package redislease
