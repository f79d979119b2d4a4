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
// Each process leases a worker ID, renews it with one round trip a second, and makes IDs by
// itself, in tens of nanoseconds each. Package sequencer, in a subdirectory, is for
// programs that want whole IDs from Redis instead.
//
// # The keys
//
//   - snowflake:leases is a hash. Each field is a worker ID; its value has the record's
//     version, the server's time of the save, and the [lease.Record] as JSON. The field
//     "created" shows that the hash was not lost.
//   - snowflake:{snowflake:leases}:used is a set of the worker IDs that ever had a record.
//   - snowflake:{snowflake:leases}:history:N is a sorted set of the earlier holders of
//     worker ID N, for [lease.Whois]: for each clock sequence that somebody held, when this
//     began and ended, and the [lease.Holding] as JSON.
//
// The braces keep all of these keys in one slot of a cluster, so that one script can write
// several of them.
//
// # The server
//
// It must be Redis 5 or later, or Valkey: the scripts read the server's clock before they
// write, which earlier versions refuse. Saved records must survive on it:
//
//   - Set appendonly yes and appendfsync always. With everysec, nothing is lost if Redis is
//     killed, and up to about two seconds if the machine fails. With snapshots alone,
//     everything since the last snapshot is lost.
//   - Set maxmemory-policy to noeviction, or to a policy that begins with volatile: the
//     keys here have no expiry.
//
// # What a loss costs
//
// HAZARD: Redis replicates asynchronously, so a failover loses the writes that the master
// acknowledged and the new master did not have yet. A crash without appendfsync always, and
// a restored backup, also lose writes. If the acquisition or the last renewals of a worker
// ID are lost, the worker ID may go to another process while its holder goes on. Both may
// then issue the same IDs, up to the bound that was lost. If clocks are right, this is at
// most a window (3 s by default) after the holder's last acknowledged renewal.
//
// The holder notices at its next renewal, within a third of a window, and takes another
// worker ID. It still issues IDs until the lost window ends. An application that stops
// earlier sets lease.Options.OnLoss to lease.Stop, and stops when [lease.Lease.Done] is
// closed. If the worker ID went to nobody, its holder goes on without harm.
//
// If a master that was replaced still serves the holders that reach it, they notice
// nothing, and repeat IDs for longer. Let min-replicas-to-write 1 and a short
// min-replicas-max-lag stop such a master. Or set Options.Replicas: then a record that too
// few replicas acknowledged is no holder's, and the holder's window ends. Both make a loss rare. Neither
// rules it out, because a failover may choose another replica. If you need certainty, use a
// store with consensus, or a database.
//
// # Lost keys
//
// If the keys are lost as a whole (by FLUSHALL, eviction or a restart without persistence),
// or if somebody deletes records, the store notices: Load and Save return an error that
// matches [lease.ErrWiped], nobody acquires a worker ID, and holders go on to the end of
// their windows. [Store.Create] repairs the store, after it has waited for two windows. IDs
// do not repeat if clocks differ by less than a window.
//
// HAZARD: if a worker ID is deleted from both the hash and the set of used worker IDs,
// while the hash's field "created" stays, the worker ID counts as never used.
//
// HAZARD: a repair by Create does not know what was lost. A lost bound may have been more
// than a window ahead, if a clock was set back since. A lost record may have kept its
// worker ID for an owner, or may have been used once. Give Create the longest window of the
// fleet.
//
// # Outages
//
// When Redis does not answer, holders go on to the end of their windows, and recover by
// themselves. go-redis sends a request again if it has lost the connection. So a save that
// was made already may return a conflict with itself; the lease then finds its own record
// and goes on. Give the client a DialTimeout of a second or so, so that it gives up
// connections that hang.
//
// go-redis dials again and again until its time is up, and then forgets the reason. To give
// errors a cause (such as connection refused), the store dials once more after such a
// failure, for 50 ms at most; it does not with a *redis.ClusterClient.
package redislease
