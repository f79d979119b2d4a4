// Package lease gives worker IDs to processes so that no two of them ever issue
// the same ID, whatever their clocks, crashes, pauses and networks do.
//
//	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
//	defer cancel() // ctx bounds the acquisition only
//	l, err := lease.Acquire(ctx, lease.File("/var/lib/myapp/snowflake"), nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// That is all: there is no loop to write around it. The lease renews itself. If it
// loses its worker ID it takes another one, under the same generator, whose IDs stay
// in order. What goes wrong is over by itself when its cause is over, and is logged
// (Options.Logger) and shown by [Lease.Stats] meanwhile.
//
// [File] is the embedded store, for the processes of one host. A [Store] for an
// engine that a fleet shares takes three methods; package leasetest checks it.
//
// # Terms
//
//   - To stamp is to issue an ID with some worker ID, clock sequence and timestamp.
//   - The bound of a worker ID and clock sequence is the time that nobody has stamped
//     at or after. It is kept in the store.
//   - A window is the span of ID time that a holder may stamp, under one worker ID
//     and clock sequence. It ends at the bound.
//   - The grant is the window that the generator is told of.
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
//     [Lease.Grant] returns what is recorded, never what is wished for, and the
//     generator compares every tick with it.
//   - The next holder stamps from the bound on, which it read in the record that
//     it replaced, or from a later time.
//   - Every change of a record is a compare-and-set: it names the version that it
//     was made from, and fails when another change came first.
//
// INVARIANT: an ID with worker ID w, clock sequence c and timestamp t has been
// issued only by a holder of w whose window under c included t; and the windows
// of w under c of any two holders have no instant in common.
//
// Why it holds. The versions of a record form one chain, because each is
// written in place of the one before it. Each holder's writes are a stretch of
// that chain, because it writes with its own token, and a write that meets
// another's token ends its hold. A holder's window under c begins at or after
// the bound that the record before its stretch (or before its change to c) has
// for c, and ends at the bound that its own last write has. Bounds do not go
// back along the chain, but for Release, which first stops the generator and
// then records the end of what it stamped. So each window begins where the one
// before has ended, or later. No clock appears in this: not the clients', which
// only propose bounds, and not the store's.
//
// # A lost worker ID
//
// A holder loses its worker ID if another process took it, because this one looked
// dead, or if all traces of its record were removed. The lease then takes another
// worker ID, as Acquire does, for as long as that takes; see [OnLoss]. If a store
// can tell that records were removed, it answers with ErrWiped instead: the holder
// stops at its window's end, and goes on when the records are back. If the file store's
// directory was emptied and begun anew by others, and says so in all of its marks, the
// worker ID is lost as well. The holder that joins them is a newcomer who remembers its
// own bounds: it collides with nobody that another newcomer would not collide with.
//
// Why the invariant holds across a replacement. The proof above is about one
// record at a time, so a lease that has held w and then w' is two holders: one
// of w and one of w'. What the window of w has left may still be stamped while
// w' is being taken, because that window ends at a bound from which the next
// holder of w begins. The grant of w' follows when it is recorded and the clock
// has reached its window. From then on the generator stamps w' alone. If w' is
// w again, the holder's new window begins, as any other's, at or after the
// bound in the store; and at or after the bound that the lease remembers, in
// case the record of w was removed with its bounds.
//
// Order. The generator begins under w' with the tick after the last that it stamped
// under w, or with the first tick of the new window if that is later. So later IDs are
// greater, whichever of w and w' is greater.
//
// Release after a replacement. The generator reports the first instant that it
// did not stamp, under any worker ID. If it has not stamped w' yet, that
// instant belongs to w. So the bound that Release records for w' is the later
// of it and the beginning of the window; if nothing was stamped in the window,
// it is the bound from before. It is never before anything that was stamped
// under w', and it may be after.
//
// # What goes wrong, and how it ends
//
// A paused process: it wakes with the window that it had, and issues nothing
// past its end. A call that finds the window over asks for a renewal and waits
// for its answer, for a third of a window at most and never past its context. (The
// third begins with the first call that waits: calls that come later wait for what is
// left of it.)
// Either nobody came, and it goes on; or the renewal tells that the worker ID
// is another's, and another one is taken. While renewals fail, or the store does not
// answer to the search for another worker ID, calls past the window fail at once, and
// [snowflake.LeaseExpiredError] has the store's error as its cause. A delayed or repeated request: its version is no longer
// current, and it changes nothing. A lost answer: the holder does not know
// whether its write was made, keeps to the window that it knows, and reads the
// record before it writes again. A crash: the bound is at most a window ahead
// of the clock that it crashed with. A clock set back across a restart: the new
// holder takes a worker ID, or a clock sequence, whose bound its clock has passed,
// or waits for up to a window, or is told by how much the clock is behind.
//
// Time decides only how soon a worker ID is taken for free: a holder that has not
// renewed for a window, by the store's clock, is taken for dead. If that is wrong
// the holder loses its worker ID and takes another; nobody issues an ID twice.
//
// A clock that leaps forward would burn the future, because bounds cannot go
// back. So a bound that is further ahead than Options.MaxLeap of what the
// monotonic time since the last renewal (or the store's own clock) lets expect
// is refused with a [*ClockLeapError], which Stats shows. Stamping stops at the
// old bound, until the clock is right again. If the store has a clock of its
// own, that clock decides. Otherwise a leap that has lasted for MaxLeap, on a
// clock that has passed by as much as the monotonic time did from one renewal
// to the next, is accepted as a restart would accept it: a laptop has slept, or
// a board got its time after it booted. [Lease.AcceptLeap] accepts it sooner.
// The same holds when a lost worker ID is replaced. At Acquire there is no time
// passed to compare with: only a store that has a clock of its own can tell
// there.
//
// # While the store is away
//
// A holder goes on to the end of its window, and by itself when the store is
// back. Acquire asks again until its context is done. Options.LocalCopy lets it go on for longer, and start. Then the record
// that counts is one in a directory of the holder's host: it is saved there
// before it is used, and in the store as soon as that answers. This is safe only
// if nobody else can get the worker ID meanwhile. So it takes worker IDs that
// are kept for their owners, and the owner is whoever has the directory. For the
// same reason a worker ID is taken in three saves: in the directory as wanted, in the
// store as held, in the directory as held, from when on it may be stamped. If the
// first acquisition ends between two of them, the directory says that nothing was
// stamped, and the owner takes the same worker ID next time.
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
// third of a window; the other is refused at its next renewal, stops at the
// end of the window that the two had in common, and takes another worker ID. If the
// first one releases the worker ID instead, until that end also whoever takes it next
// may repeat IDs of the other.
package lease
