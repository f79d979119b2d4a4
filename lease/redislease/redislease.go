// Package redislease gives out worker IDs with a Redis server that a fleet shares.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
//	store, err := redislease.New(client, nil)
//	...
//	err = store.Create(ctx, 0) // waits for 6 s the first time ever, and does nothing later
//	...
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// Each process leases a worker ID, renews it with one round trip a second, and makes
// IDs by itself, in tens of nanoseconds each. Package sequencer, in a folder of this
// one, is for programs that want whole IDs from Redis instead.
//
// # The keys
//
//   - snowflake:leases is a hash: each field is a worker ID, with the record's version, the
//     server's time of the save and the [lease.Record] as JSON. The field "created" tells
//     it from a hash that was lost.
//   - snowflake:{snowflake:leases}:used is a set: the worker IDs that ever had a record.
//   - snowflake:{snowflake:leases}:history:N is a sorted set: for each stretch of time in
//     which somebody held worker ID N and a clock sequence before, when it began and ended and
//     the [lease.Holding] as JSON. [lease.Whois] reads it.
//
// Braces in the names keep all of them in one slot of a cluster. What belongs together
// is written by one script.
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
// acquisition or last renewals were lost may then go to another process while its holder
// goes on, and both may issue the same IDs: up to the bound that was lost, which
// is at most a window (3 s by default) after the holder's last acknowledged
// renewal, if clocks are right. The holder notices at its next renewal, within a third of
// a window, and takes another worker ID. It still issues what is left of the lost window; an
// application that sets lease.Options.OnLoss to lease.Stop, and stops when
// [lease.Lease.Done] is closed, ends it sooner. A holder whose worker ID went to nobody
// goes on without harm.
//
// It does not end so if a master that was replaced still serves the holders
// that reach it. Let min-replicas-to-write 1 and a short min-replicas-max-lag
// stop such a master; or set Options.Replicas, so that a save which no replica
// acknowledged fails, and the holder's window ends. Both make a loss rare. Neither
// rules it out, because a failover may choose another replica. If that will not
// do, take a store with consensus, or a database.
//
// # Lost keys
//
// Keys that are lost as a whole, by FLUSHALL, eviction or a restart without
// persistence, and records that somebody deletes, are noticed: Load and Save return an
// error that matches [lease.ErrWiped], nobody acquires a worker ID, and holders go on
// to the ends of their windows. [Store.Create] repairs the store, after waiting for two
// windows. This loss costs no duplicates if clocks differ by less than a window.
//
// HAZARD: a worker ID that is deleted from both the hash and the set of used worker IDs,
// while the hash's field "created" stays, counts as never used.
//
// HAZARD: a repair by Create knows nothing of what was lost: not a bound that lay
// further ahead than a window, of a clock that was set back since, nor that a worker ID
// was kept for somebody or used once. Give Create the fleet's longest window.
//
// # Outages
//
// When Redis does not answer, holders go on to the end of their windows, and
// recover by themselves. go-redis sends a request again when it has lost the
// connection: a save that was made already then meets itself as a conflict, and
// the lease finds its own record and goes on. Give the client a DialTimeout of a
// second or so, that connections which hang are given up soon.
//
// go-redis dials again and again until its time is up, and then forgets why. So that
// errors have a cause (such as connection refused), the store dials once more after such
// a failure, for 50 ms at most; not with a *redis.ClusterClient.
package redislease
