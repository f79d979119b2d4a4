// Package redislease gives out worker IDs, or whole IDs, with a Redis server that
// a fleet shares.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
//	if err := redislease.Create(ctx, client, nil, 0); err != nil {
//		return err
//	}
//	l, err := lease.Acquire(ctx, redislease.New(client, nil), &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// [New] returns a store for package lease: each process leases a worker ID,
// renews it with one round trip a second, and makes IDs by itself, in tens of
// nanoseconds each. A [Sequencer] needs no lease: Redis counts, and each call is a
// round trip. Prefer the lease. Take the Sequencer for many short-lived processes,
// where the IDs of all clients must be in one order, or to go on with IDs of the
// [snowflake.RedisLayout].
//
// # The server
//
// It is Redis 5 or later, or Valkey: the scripts read the server's clock before
// they write, which earlier ones refuse. What was saved must survive there:
//
//   - appendonly yes and appendfsync always. With everysec nothing is lost when
//     Redis is killed, and up to about two seconds when the machine fails. With
//     snapshots alone all is lost since the last one.
//   - maxmemory-policy noeviction, or a volatile one. Keys here have no expiry.
//
// # What a loss costs
//
// HAZARD: Redis replicates asynchronously. A failover loses what the master
// acknowledged and the new one did not have yet; a crash without appendfsync
// always, and a backup that is restored, lose some too. A worker ID whose
// acquisition or last renewals were lost may then go to another while its holder
// goes on, and both may issue the same IDs: up to the bound that was lost, which
// is at most a window (3 s by default) after the holder's last acknowledged
// renewal, where clocks are right. The holder is told at its next renewal, within
// a third of a window; an application that stops then, when [lease.Lease.Done] is
// closed, ends it sooner. A holder whose worker ID went to nobody goes on without
// harm.
//
// It does not end so where a master that was replaced still serves the holders
// that reach it. Let min-replicas-to-write 1 and a short min-replicas-max-lag
// stop such a master; or set Options.Replicas, so that a save which no replica
// acknowledged fails, and the holder's window ends. Both make a loss rare. Neither
// rules it out, because a failover may choose another replica. Where that will not
// do, take a store with consensus, or a database.
//
// A hash that is lost as a whole, by FLUSHALL, eviction or a restart without
// persistence, is noticed: Load and Save fail with [ErrNoStore], holders go on to
// their windows' end, and nobody acquires until [Create] has made it anew, which it
// does after waiting for two windows. This loss costs no duplicates where clocks
// differ by less than a window.
//
// # Outages
//
// When Redis does not answer, holders go on to the end of their windows, and
// recover by themselves. go-redis sends a request again when it has lost the
// connection: a save that was made already then meets itself as a conflict, and
// the lease finds its own record and goes on. Give the client a DialTimeout of a
// second or so, that connections which hang are given up soon.
package redislease
