// Package lease gives worker IDs to processes so that no two of them ever issue the same ID,
// whatever their clocks, crashes, pauses and networks do.
//
//	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
//	defer cancel() // ctx bounds the acquisition only
//	store := lease.File("/var/lib/myapp/snowflake")
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"}) // unique to this process
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// The lease renews itself. If it loses its worker ID, it takes another one, and the same generator
// continues with greater IDs. It recovers from all other problems once their cause is gone. A
// problem is logged when it begins and when it ends (Options.Logger), and [Lease.Stats] shows it.
//
// [File] is the embedded store, for the processes of one host. A fleet uses package sqllease,
// redislease, etcdlease, zklease, k8slease, natslease, s3lease or dynamolease, each in a
// subdirectory and, except sqllease, a module of its own, or your own [Store].
//
// # Terms
//
//   - ID time is the time that is written into IDs. It begins at the layout's epoch and is
//     counted in ticks.
//   - To stamp is to issue an ID with some worker ID, clock sequence and timestamp.
//   - The bound of a worker ID and clock sequence is an instant of ID time. No ID with them has
//     been stamped at or after it.
//   - A holder is a process to which a store has given a worker ID. Its owner is the name
//     under which it asked (Options.Owner), such as a pod's name: a process that restarts is a
//     new holder, usually with the same owner.
//   - A window is a span of ID time in which one holder may stamp one worker ID and clock
//     sequence. It ends at the bound. Options.Window is its length.
//   - The grant is the window that the generator has been given.
//   - A store has entries: for each worker ID a record (its holder, with the token of the
//     acquisition, and its bounds) and a mark (there has been a record); and the door, the entry
//     "store": until it is open, no worker ID is taken.
//   - The history has the earlier holders of each worker ID, with their windows. A store keeps it
//     for 90 days (Options.History). Because windows never overlap, [Whois] finds the one process
//     that can have issued an ID, and [ReadHistory] the IDs that no holder can have issued.
//
// Two holders of one worker ID never share an instant. Here the window is 3 s:
//
//	ID time        0 s   1 s   2 s   3 s   4 s   5 s   6 s   7 s   8 s
//	                |-----|-----|-----|-----|-----|-----|-----|-----|
//	at 0 s, A saves [=================)                                  the bound 3 s
//	at 1 s, A saves [=======================)                            the bound 4 s
//	at 2 s, A saves [=============================)                      the bound 5 s
//	A's window      [ IDs were issued ]. . . . . .)                      A is paused at 3 s
//	B's window                                    [=================)    the bound 8 s
//
// At 3 s, A is paused. B finds the bound 5 s, so its window begins there. At 6 s, A wakes up. Its
// window has ended, so it stamps nothing more, and takes another worker ID.
//
// # The protocol
//
// A session or a heartbeat that the process watches does not help a process that was paused: after
// it wakes up, it continues to issue IDs until it looks. So a lease is bounded in ID time. The
// holder first saves a later bound in its record, and only then stamps up to it. [Lease.Grant]
// returns what is saved, and the generator compares every tick with the grant. The next holder
// stamps only from the bound on in the record that it replaces.
//
// INVARIANT: an ID with worker ID w, clock sequence c and timestamp t has been issued only by
// a holder of w whose window under c included t; and the windows of w under c of any two
// holders have no instant in common.
//
// Why it holds. Each line begins with a name, by which the stories (testdata/stories) cite it, and
// ends with the functions of the internal package protocol, or the methods, that keep it. What one
// holder knows is a value, a tenure: its methods Renew, Bump, Release, look and restore take these
// steps, and depend only on the tenure and on the answers of the store.
//
//  1. chain: The versions of a record form one chain, because each save names the version that it
//     was made from, and fails if another save came first (Store.Put, book.PutRecord).
//  2. tenure: The saves of one holder are a stretch of the chain, because every save carries the
//     holder's token, and a save that meets another token ends the tenure (tenure.Tenure.look,
//     protocol.Judge).
//  3. begin: A holder's window under c begins at the bound for c in the record before its stretch,
//     or before it changed to c, or later (protocol.Record.Start, protocol.Record.Take,
//     tenure.Tenure.Bump).
//  4. end: The window ends at the bound in the holder's own last save, which never goes back
//     (tenure.Tenure.Renew, protocol.Record.Extend).
//  5. back: Bounds do not go back along the chain, except when a worker ID is given back: then the
//     generator has stopped, and the bound is the end of what it stamped; or nothing was stamped
//     and the bound is what it was. It is no earlier than the last floor, which the watermark may
//     have passed (tenure.Tenure.Release, protocol.Record.Undo).
//
// So each window begins at the end of the window before it, or later. No clock appears in this
// proof: clients' clocks only propose bounds, and the engine's clock has no part in it. Who is
// taken for dead (protocol.Record.Live) decides only how soon a worker ID is free.
//
// silence: A holder is dead if its record has not changed for its window. The processes that wait
// for that measure the time by their monotonic clocks (protocol.Record.Live, book.Watch.Silent).
// They keep the time so far in the entry "silence", so that the next process continues from there.
// If the engine has a clock, and both that clock and the waiting process's own have passed the
// holder's bounds, the engine's clock counts, too. So no single wrong clock makes a live holder
// look dead.
//
// The history is a part of the chain: a record keeps the holdings that have ended. Earlier holdings
// are in other entries, which are made before the record that counts them
// (protocol.Record.WithHistoryOf).
//
// # A lost worker ID
//
// A holder loses its worker ID if another process took it, because this holder looked dead.
// The lease then takes another one (see [OnLoss]).
//
// replacement: The invariant holds across a replacement. The proof above is about one record at a
// time. So a lease that held w and then takes w' counts as two holders, one of w and one of
// w'. While it takes w', the generator may still stamp the rest of the window of w, because
// the next holder of w begins at the end of this window. The generator is granted w' when w' is
// saved and the clock has reached its window, and then stamps w' alone. If w' equals w,
// the new window begins, as every holder's does, at the bound in the store or later; and at
// the bound that the lease remembers or later, in case the record of w was lost.
//
// order: Under w' the generator begins with the tick after its last tick under w, or with the first
// tick of the new window if that is later. So IDs rise, even if w' is less than w.
//
// release: After a replacement the generator reports the first instant that it did not stamp,
// under any worker ID. If it has not stamped w' yet, this instant belongs to w. So Release
// records for w' the later of this instant and the beginning of the window; or, if nothing was
// stamped in the window, the bound from before. The recorded bound may lie after the last
// stamp under w', and never before it.
//
// # A fencing token
//
// The IDs of a worker ID rise across its holders. So if a fleet has one worker ID (Options.Count
// 1), and its holder is the leader, the leader's first ID is a fencing token. Storage that keeps
// the last token with what it stores, and refuses a lower one, refuses a leader that was paused and
// replaced: see the example of [Acquire]. If a lost worker ID was replaced, take a new ID. With
// clock sequences or [snowflake.RewindPolicy], IDs do not rise, and are no tokens.
//
// # A store that loses entries
//
// If somebody empties a directory, flushes a database, drops a table or deletes a prefix, chains
// break off, and the first line of the proof no longer holds by itself. The fleet heals the store
// without an operator. These are the rules, which lease/internal/wiped keeps:
//
//   - restore: A holder whose record is gone puts it back at its next renewal, with its bounds. It
//     may, as long as its window lasts and less than a window has passed since its last save, by
//     every clock that can tell (tenure.Tenure.restore, protocol.Record.Restorable), and no release
//     has gone without an answer (it may have freed the worker ID). If only the engine's clock says
//     that it is too late, the holder asks again until its window ends. The bound does not move in
//     the same save. The holder looks again when it knows that the record is there
//     (tenure.Tenure.mayRestore): if it is too late by then, the worker ID is lost.
//   - heal: Then the holder also puts back the watermark, its owner's entry and the door. A door
//     that a newcomer with another layout has made, and that is not open yet, is replaced. So is
//     one that Init or NewStore opened by mistake (protocol.Door.Mistaken). In the door the holder
//     counts the time of the next rule, so that a newcomer hours later does not wait (wiped.Heal).
//   - door: The door is made first; a newcomer that does not find it waits for [MaxWindow] and a
//     minute. The time is counted by the monotonic clocks of those who wait, and kept in the door,
//     so they wait for it together, one after the other (protocol.Door.Advance). Then worker IDs
//     that still have no record may be taken, from the newcomer's time on, or from the engine's if
//     it is later (protocol.Door.Raise). While these two clocks differ by more than a minute,
//     one of them is wrong, and nobody takes a worker ID. Init and NewStore open a store at once,
//     but not one that has a record or a mark. In a directory without any sign of use, a newcomer
//     waits for its own window only.
//   - unreadable: An entry that cannot be read counts as lost, and is replaced. If it is a record,
//     it stays as it is, its worker ID is not used, and its holder takes another one.
//   - mark: The mark of a worker ID is made after its first record and before anything is stamped.
//     If a newcomer finds a mark without a record, the worker ID is not used for the same
//     time, and then from the newcomer's or the engine's time on (protocol.Record.Missing).
//   - look again: A newcomer that made a record for a worker ID without a mark looks at the door
//     and at its record again before it stamps. If either has changed, entries were lost
//     since its first look, and it starts again (wiped.Confirm).
//   - stray: Until such a newcomer has looked again, a holder whose record was lost may find the
//     newcomer's. The holder replaces it (wiped.IsStray), and then the newcomer sees another
//     record.
//
// Why the invariant holds. Let the record of w be lost, and let h have held w last. If h puts its
// record back, the chain continues as if nothing had happened: nobody else has taken w, because h
// was not idle for a window when the record was lost (protocol.Record.Live), and without the record
// nobody takes w before the wait ends. If h does not put the record back, no save of h changes
// anything any more, since it names a version that is gone. So h stamps at most up to its bound,
// and this bound is at most MaxWindow ahead of h's clock when the record was lost. The next holder
// begins a wait later, by a clock that differs from h's by less than the extra minute. So it begins
// after the bound. A record from before the loss counts for a newcomer with the same floor, because
// the records of later holders may be lost, too.
//
// This is the one place where clocks matter: if records are lost, the clocks of the hosts must
// differ by less than a minute. For Init, NewStore and directories the argument holds only if the
// store is new, or each window under the lost records has ended.
//
// If all this does not help, one rule is left:
//
//   - overlap: An engine lost what it had acknowledged, for example, and another process took the
//     worker ID by an older bound. The holder finds out at its next renewal that the windows
//     overlap (protocol.Judge). It then stops at once, logs an ERROR with the span in which IDs may
//     have repeated, and takes another worker ID.
//
// # What goes wrong, and how it ends
//
//   - pause: The process is paused. It wakes up with the window that it had, and issues nothing
//     past its end. Calls after that ask for a renewal and wait for the answer, together for a
//     third of a window at most and never past their contexts. If another process took the worker
//     ID during the pause, the holder takes another one.
//   - away: Renewals fail, or the store does not answer the search for another worker ID. IDs are
//     issued until the window ends. After that calls fail at once, with a
//     [snowflake.LeaseExpiredError] whose cause is the store's error.
//   - delayed: A request is delayed or repeated. Its version is no longer current, so it changes
//     nothing.
//   - answer lost: An answer is lost. The holder does not know whether its save was made. It keeps
//     to the window that it knows, and reads the record before it saves again.
//   - crash: The process crashes. The bound is at most a window ahead of the clock that it crashed
//     with, so that is how long the worker ID stays unused.
//   - clock back: The clock is set back across a restart. The new holder takes a worker ID or a
//     clock sequence whose bound its clock has passed. If there is no such bound, it waits for up
//     to a window, or fails with the difference.
//   - looks dead: A live holder looks dead, because it has not renewed for a window. It loses the
//     worker ID and takes another.
//   - namesake: Another live process has the same Options.Owner. Each takes a worker ID of its own.
//     With ReuseKeep the later one waits for the worker ID of the other, for one and a half
//     windows. Both log it once (Lease.lookForNamesake).
//
// # A clock that leaps forward
//
// leap: Such a clock would burn the future, because bounds cannot go back. So the lease compares
// each new bound with the store's clock or, if the store shares the clients' clock, with the
// monotonic time since the last renewal. (At Acquire no time has passed, so only a store with
// its own clock can tell.) A bound that is more than Options.MaxLeap ahead is refused with a
// [*ClockLeapError], and the generator stops at the old bound until the clock is right again.
//
// steady leap: If the store has its own clock, this clock decides. Otherwise a leap is accepted
// after it has lasted for MaxLeap on a clock that runs steadily: from one renewal to the next it
// advanced by as much as the monotonic time. (A laptop has slept, or a board got its time after it
// booted; a restart would accept the leap, too.) [Lease.AcceptLeap] accepts it sooner.
//
// # While the store is away
//
// A holder issues IDs until its window ends, and again when the store is back.
//
// copy: With Options.LocalCopy it continues for longer, and can also start. The record that counts
// is then a file on the holder's host. It is saved there before it is used, and in the store as
// soon as the store answers. This is safe only if nobody else can get the worker ID before that. So
// LocalCopy works only with worker IDs that are kept for their owners (ReuseKeep), and the
// directory is a part of the owner's name. The proof is in lease/internal/localcopy.
//
// retire: Only a person can know that the directory is gone for good ([Retire]). The worker ID is
// then not used again (protocol.Record.Retire). If the directory exists after all, its owner may
// continue until the store answers, because nobody else has the worker ID, and then loses it
// (protocol.Judge).
//
// # The watermark
//
// [Watermark] returns an ID below every ID issued from now on. Three things make it:
//
//   - floor: Each save has a floor (protocol.Record.Least): the holder no longer stamps anything
//     before it, whatever its clock reads and whether or not the save succeeds, because the
//     generator has closed the ticks before it. Calls that wait for an earlier tick, and open
//     Holds, keep the floor back (book.Unstamped.Least).
//   - propose: The entry "watermark" has a proposed instant, which never falls. A reader proposes
//     an instant, and then lists the records. It returns no more than was proposed before the list,
//     and no more than the floors in the list allow (protocol.Lowest, protocol.Watermark.Publish).
//     It never proposes an instant after the latest bound in the store (protocol.Latest). No ID is
//     after this bound, so no row is missed; and no clock of the engine or of a reader moves it.
//   - newcomer: Whoever takes a worker ID, or changes to another clock sequence, saves first. The
//     floor that is saved is the beginning of the window: the bound or, if that is later, 20 ms
//     before its clock, because the generator's clock may lag by as much (tenure.Rules.WindowFrom).
//     Then it looks at the proposed instant, and begins there or later (tenure.Above).
//
// INVARIANT: a holder that renews issues no ID before a published instant.
//
// Why it holds. Let R be published, after P was proposed, R <= P, and a list was read. If the
// holder's window was saved before the list, its floor was in the list, so R is not after it; a
// floor that the holder saves later is not earlier, unless it changes to another clock sequence,
// which is another window. If the window was saved after the list, the holder looked after P was
// proposed, and begins at P or later. No clock appears in this: clocks say only how soon the
// watermark rises. It rises no further than the reader's clock and the engine's, so that newcomers
// need not wait for it.
//
// dead: A holder that is dead (silence) counts until its bounds have passed by the clock of the
// reader and of the engine, and never again after that, however many die one after the other
// (protocol.Lowest). If it is replaced before, the next holder's record keeps what it may still
// stamp (protocol.Record.Prior). So does the record of a lease that was released without a
// generator (Lease.Release). If a holder renews after so long a silence, it looks at the watermark,
// as a newcomer does (tenure.Tenure.Overdue). Until then it may issue IDs in the rest of a window
// that the watermark has passed, if its clock still reads a time in it; and a transaction that it
// began before may still commit. Only the database can stop these: docs/watermark.md shows how.
//
// HAZARD: if the store has no clock, and the holder's machine stood still in a way that its clocks
// do not show, the holder does not know that it counted as dead, and does not look.
//
// If a record is lost or cannot be read, its floor is unknown, and the watermark stands still until
// the record is back or every window under it must have ended. If all entries are lost, there is no
// watermark until a holder or a newcomer has made the store again. A holder whose record was lost
// puts the watermark back at its floor, because nothing later was proposed while it lived. Until
// the door is open, it also replaces a watermark that another holder, whose clock is ahead, has put
// back. If the watermark alone is lost, or cannot be read, live holders put it back in the same
// way: each looks at its entry once a minute, if it knows of one. If its own clock alone is ahead,
// it leaves the entry to others, until those are known to be dead (readers.pace, wiped.Heal). Until
// then newcomers begin at the latest bound of all others (tenure.Above). If a clock that was ahead
// has left this bound, they begin at the latest floor of a holder or a minute after their own
// clock, whichever is later (wiped.RestoreWatermark): while no holder lives, clocks must not differ
// by more than that. A holder with a LocalCopy may stamp without the store, so it counts until it
// is released; if it starts while the store is away, it begins at its clock. A floor counts as a
// stamp: if a clock is set back to before it, the policy decides.
//
// HAZARD: if the store loses all entries, a holder whose clock then goes back may change to a clock
// sequence that begins below a watermark which was read before the loss.
//
// # Hazards
//
// HAZARD: IDs are unique within one store. Processes with different stores hold the same worker
// IDs, and issue the same IDs, unless their datacenters or ranges (Options.First, Options.Count)
// differ.
//
// HAZARD: an engine that loses acknowledged writes in a failover, or is restored from a
// backup, loses bounds. The windows of two holders may then overlap by what was lost, and
// IDs may repeat. Entries that are gone are no such loss: see above.
//
// HAZARD: if the record and the mark of a worker ID are removed alone, and the entry "store"
// stays, the worker ID counts as unused. IDs may repeat until its holder renews.
//
// clone: A machine that is cloned while it holds a lease holds it twice. If its hypervisor
// reports clones (Options.VMClock), each copy stamps nothing more of its window, and takes a
// worker ID as a new holder; or the lease ends, if its records are in a directory that was
// cloned, too (File, Options.LocalCopy).
//
// HAZARD: if the hypervisor does not report a clone, both copies may issue the same IDs until the
// end, by their clocks, of the window that they had in common: for a window at most. The copy that
// renews second is refused, stops at the end of this window, and takes another worker ID. If the
// first copy releases the worker ID instead, the next holder may also repeat IDs of the other copy,
// until this window ends.
package lease
