// Package lease gives worker IDs to processes so that no two of them ever issue
// the same ID, whatever their clocks, crashes, pauses and networks do.
//
//	l, err := lease.Acquire(ctx, lease.File("/var/lib/myapp/snowflake"), nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// [File] is the embedded store, for the processes of one host. A [Store] for an
// engine that a fleet shares takes two methods; package leasetest checks it.
//
// # The protocol
//
// A lease that is only watched, by a session or a heartbeat, does not help
// against a process that was paused: it wakes up and goes on until it looks. So
// the fence here is in ID time, the time that is written into the IDs:
//
//   - A store keeps a [Record] for each worker ID: who holds it, and a bound for
//     each clock sequence, the time up to which IDs may have been stamped.
//   - The holder moves the bound forward first, and stamps up to it afterwards.
//     [Lease.Window] returns what is recorded, never what is wished for, and the
//     generator compares every tick with it.
//   - The next holder stamps from the bound on, which it read in the record that
//     it replaced.
//   - Every change of a record is a compare-and-set: it names the version that it
//     was made from, and fails when another change came first.
//
// INVARIANT: an ID with worker ID w, clock sequence c and timestamp t has been
// issued only by a holder of w whose window under c included t; and the windows
// of w under c of any two holders have no instant in common.
//
// Why it holds. The versions of a record form one chain, because each is written
// in place of the one before it. Each holder's writes are a stretch of that
// chain, because it writes with its own token, and a write that meets another's
// token ends its lease. A holder's window under c begins at the bound that the
// record before its stretch (or before its change to c) has for c, and ends at
// the bound that its own last write has. Bounds do not go back along the chain,
// but for Release, which first stops the generator and then records the end of
// what it stamped. So the windows lie one behind the other. No clock appears in
// this: not the clients', which only propose bounds, and not the store's.
//
// A paused process: it wakes with the window that it had, issues nothing past
// its end, and learns at its next renewal that it lost the worker ID. A delayed
// or repeated request: its version is no longer current, and it changes nothing.
// A lost answer: the holder does not know whether its write was made, keeps to
// the window that it knows, and reads the record before it writes again. A crash:
// the bound is at most a window ahead of the clock that it crashed with. A clock
// set back across a restart: the new holder takes a worker ID, or a clock
// sequence, whose bound is behind its clock, or waits for up to a window, or is
// told by how much the clock is behind.
//
// Time decides only how soon a worker ID is taken for free: a holder that has not
// renewed for a window, by the store's clock, is taken for dead. If that is wrong
// the holder loses its worker ID and is told; nobody issues an ID twice.
//
// A clock that leaps forward would burn the future, because bounds cannot go
// back. So a bound that is further ahead than Options.MaxLeap of what the
// monotonic time since the last renewal (or the store's own clock) lets expect is
// refused with a [*ClockLeapError], which Stats shows. Stamping stops at the old
// bound, until the clock is right again or [Lease.AcceptLeap] is called. At
// Acquire there is no time passed to compare with: only a store that has a clock
// of its own can tell there.
//
// # While the store is away
//
// A holder goes on to the end of its window, and by itself when the store is
// back. Options.LocalCopy lets it go on for longer, and start. Then the record
// that counts is one in a directory of the holder's host: it is saved there
// before it is used, and in the store as soon as that answers. This is safe only
// where nobody else can get the worker ID meanwhile. So it takes worker IDs that
// are kept for their owners, and the owner is the one who has the directory.
//
// # What a store must guarantee
//
// Save is atomic, compares the version, and returns only when the record will
// survive. What was saved does not become unsaved: HAZARD: an engine that loses
// acknowledged writes in a failover, or is restored from a backup, loses bounds,
// and the windows of two holders may then overlap by what was lost.
//
// HAZARD: a machine that is cloned while it holds a lease holds it twice. Both
// copies may issue the same IDs until the first of them renews, which is within a
// third of a window; the other is refused at its next renewal, and stops at the
// end of the window that the two had in common. Where the first one releases the
// worker ID instead, until that end also whoever takes it next may repeat IDs of
// the other.
package lease
