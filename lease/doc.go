// Package lease gives worker IDs to processes so that no two of them ever issue the same ID,
// whatever their clocks, crashes, pauses and networks do.
//
//	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//	defer cancel() // ctx bounds the acquisition only
//	l, err := lease.Acquire(ctx, lease.File("/var/lib/myapp/snowflake"), nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// There is no loop to write around this. The lease renews itself. If it loses its worker ID,
// it takes another one, and the same generator goes on with greater IDs. Every trouble ends
// by itself when its cause ends. Meanwhile it is logged (Options.Logger), and [Lease.Stats]
// shows it.
//
// [File] is the embedded store, for the processes of one host. A fleet uses a store that all
// of its hosts reach: packages sqllease, redislease, etcdlease, zklease and k8slease, each a
// module in a subdirectory, or a [Store] that you write. It takes three methods, and package
// leasetest checks them.
//
// # Terms
//
//   - ID time is the time that is written into IDs. It begins at the layout's epoch and is
//     counted in ticks.
//   - To stamp is to issue an ID with some worker ID, clock sequence and timestamp.
//   - The bound of a worker ID and clock sequence is an instant of ID time at or after which
//     nobody has stamped them. The store keeps it.
//   - A holder is a process to which a store has given a worker ID. Its owner is the name
//     under which it asked (Options.Owner): a process that restarts is a new holder, mostly
//     with the same owner.
//   - A window is a span of ID time in which one holder may stamp one worker ID and clock
//     sequence. It ends at the bound. Options.Window is its length. If it
//     is 0, the store may choose the length ([Windower]); otherwise it is 3 s.
//   - The grant is the window that the generator was told.
//
// # The protocol
//
// A session or a heartbeat that the process watches does not help a process that was paused:
// after it wakes up, it goes on issuing IDs until it looks. So the fence here is in ID time:
//
//   - A store keeps a [Record] for each worker ID. It says who holds the worker ID, and has a
//     bound for each clock sequence.
//   - The holder first saves a later bound, and only then stamps up to it. [Lease.Grant]
//     returns what is saved, never what is wished for, and the generator compares every tick
//     with the grant.
//   - The next holder reads the bound in the record that it replaces, and stamps only from
//     there on.
//   - Every save is a compare-and-set: it names the version that it was made from, and fails
//     if another save came first.
//
// INVARIANT: an ID with worker ID w, clock sequence c and timestamp t has been issued only by
// a holder of w whose window under c included t; and the windows of w under c of any two
// holders have no instant in common.
//
// Why it holds. The versions of a record form one chain, because each replaces the one before
// it. The saves of one holder are a stretch of the chain, because every save carries the
// holder's token, and a save that meets another token ends the hold. A holder's window under
// c begins at the bound for c in the record before its stretch (or before it changed to c), or
// later. The window ends at the bound in the holder's own last save. Bounds do not go back
// along the chain, except at Release, which first stops the generator and then records the
// end of what it stamped. So each window begins at the end of the window before it, or
// later. No clock appears in this proof: clients' clocks only propose bounds, and the store's
// clock has no part in it.
//
// # A lost worker ID
//
// A holder loses its worker ID if another process took it, because this holder looked dead,
// or if all traces of its record were removed. The lease then takes another worker ID, as
// Acquire does, for as long as that takes (see [OnLoss]).
//
// Lost records are another matter: if a store can tell that records were removed, it returns
// ErrWiped. The holder then stops at the end of its window, and goes on when the records are
// back. There is one exception, for the file store. If its directory was emptied, and other
// processes began it anew, and all of its marks say so, the worker ID is lost. The holder
// then joins the new directory as a newcomer that remembers its own bounds. It can repeat
// no ID that another newcomer would not repeat.
//
// Why the invariant holds across a replacement. The proof above is about one record at a
// time. So a lease that held w and then takes w' counts as two holders, one of w and one of
// w'. While it takes w', the generator may still stamp the rest of the window of w, because
// the next holder of w begins where that window ends. The generator is granted w' when w' is
// saved and the clock has reached its window; from then on it stamps w' alone. If w' equals w,
// the new window begins, as every holder's does, at the bound in the store or later; and at
// the bound that the lease remembers or later, in case the record of w was removed.
//
// Order. Under w' the generator begins with the tick after its last tick under w, or with
// the first tick of the new window if that is later. So later IDs are greater, even if w' is
// less than w.
//
// Release after a replacement. The generator reports the first instant that it did not stamp,
// under any worker ID. If it has not stamped w' yet, this instant belongs to w. So Release
// records for w' the later of this instant and the beginning of the window; or, if nothing was
// stamped in the window, the bound from before. The recorded bound may lie after the last
// stamp under w', and never before it.
//
// # What goes wrong, and how it ends
//
//   - The process is paused. It wakes up with the window that it had, and issues nothing past
//     its end. The first call after that asks for a renewal and waits for the answer, for a
//     third of a window at most and never past its context. (A call that comes while others
//     wait shares what is left of this third.) If nobody took the worker ID, the holder goes
//     on. If somebody did, it takes another one.
//   - Renewals fail, or the store does not answer the search for another worker ID. IDs are
//     issued until the window ends. After that calls fail at once, with a
//     [snowflake.LeaseExpiredError] whose cause is the store's error.
//   - A request is delayed or repeated. Its version is no longer current, so it changes
//     nothing.
//   - An answer is lost. The holder does not know whether its save was made. It keeps to the
//     window that it knows, and reads the record before it saves again.
//   - The process crashes. The bound is at most a window ahead of the clock that it crashed
//     with, so that is how long the worker ID stays unused.
//   - The clock is set back across a restart. The new holder takes a worker ID or a clock
//     sequence whose bound its clock has passed. If there is no such bound, it waits for up to
//     a window. If the wait would be longer, Acquire says by how much the clock is behind.
//   - A live holder looks dead. A holder that has not renewed for a window, by the store's
//     clock, is taken for dead, and its worker ID is free from its bound on. If it was alive,
//     it loses the worker ID and takes another. Nobody issues an ID twice.
//
// # A clock that leaps forward
//
// Such a clock would burn the future, because bounds cannot go back. So the lease compares
// each new bound with the store's clock or, if the store shares the clients' clock, with the
// monotonic time since the last renewal. A bound that is more than Options.MaxLeap ahead of it
// is refused with a [*ClockLeapError], which Stats shows. The generator stops at the old bound
// until the clock is right again.
//
// If the store has its own clock, this clock decides. Otherwise a leap is accepted
// after it has lasted for MaxLeap on a clock that runs steadily, which means that from one
// renewal to the next it passed by as much as the monotonic time did. (A laptop has slept, or
// a board got its time after it booted; a restart would accept the leap, too.)
// [Lease.AcceptLeap] accepts it sooner.
//
// The same holds while a lost worker ID is replaced. At Acquire no time has passed to compare
// with, so only a store with its own clock can tell.
//
// # While the store is away
//
// A holder goes on to the end of its window, and by itself when the store is back. Acquire
// asks again until its context is done or, if the context has no deadline, for one to two
// minutes.
//
// With Options.LocalCopy a holder goes on for longer, and can start. Then the record that
// counts is a file in a directory of the holder's host. It is saved there before it is used,
// and in the store as soon as the store answers. This is safe only if nobody else can get the
// worker ID meanwhile. So LocalCopy works only with worker IDs that are kept for their owners
// (ReuseKeep), and the directory is a part of the owner's name.
//
// For the same reason a worker ID is taken in three saves: in the directory as wanted, in the
// store as held, in the directory as held. It may be stamped after the third. If the first
// acquisition ends between two of them, the directory says that nothing was stamped, and the
// owner takes the same worker ID next time.
//
// # What a store must guarantee
//
// Save is atomic, compares the version, and returns only when the record will survive a crash.
// What was saved stays saved.
//
// HAZARD: an engine that loses acknowledged writes in a failover, or is restored from a
// backup, loses bounds. The windows of two holders may then overlap by what was lost, and
// IDs may repeat.
//
// HAZARD: a machine that is cloned while it holds a lease holds it twice. Both copies may
// issue the same IDs until the end of the window that they had in common, by their clocks:
// a window at most. The copy that renews second is refused, stops at the end of this window,
// and takes another worker ID. If the first copy releases the worker ID instead, the next
// holder may also repeat IDs of the other copy, until this window ends.
package lease
