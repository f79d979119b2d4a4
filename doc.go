// Package snowflake issues 64-bit IDs in process, without a network call per ID, and reads
// them back. An ID carries its time, the worker that issued it and a sequence number. So IDs
// are unique, sort by time, and fit a BIGINT primary key.
//
//	gen, err := snowflake.New(7, nil) // 7: a worker ID that no other process has
//	...
//	id, err := gen.NextID()
//	fmt.Println(id, snowflake.Decode(id))
//
// # Terms
//
// An ID is a whole number of 63 bits, so it is never negative. A [Layout] divides the bits among
// fields. This is the ID 117469438034341891 of [DefaultLayout]:
//
//	 63  62                                      22 21       12 11         0
//	+---+-------------------------------------------+------------+--------------+
//	| 0 | 00000011010000101010101110101001101111000 | 0000000111 | 000000000011 |
//	+---+-------------------------------------------+------------+--------------+
//	sign  time: 41 bits                               worker: 10   sequence: 12
//	      28,006,896,504 ms after the epoch           7            3
//	      = 2026-11-21 03:41:36.504 UTC
//
// These words recur:
//
//   - The epoch is the instant at which the time field is 0: for DefaultLayout 2026-01-01.
//   - A tick is the unit in which the time field counts: for most layouts a millisecond.
//   - To stamp a tick is to issue an ID with this time.
//   - The worker ID is the number of a process in its IDs.
//   - The sequence distinguishes one worker's IDs within a tick. It begins at 0 in each tick, and
//     is spent when all of a tick's numbers are used: then callers wait for the next tick.
//   - A clock sequence, in some layouts, distinguishes IDs that are stamped before and after a step
//     back of the clock.
//   - A [Lease] lends a worker ID to one process at a time.
//
// # The promise
//
// No ID is issued twice by a Generator, whatever its clock reads: set back, set forward,
// stopped or leaping. If the promise cannot be kept, the caller gets an error, at once, and
// nothing has changed. Besides:
//
//   - Order. A call that begins after another has returned gets a larger ID, also if a lease
//     has replaced the worker ID. [ClockSeqPolicy] and [RewindPolicy] give this up when the
//     clock goes back.
//   - Truth. A timestamp is a tick that the clock reads during the call, or later by at most
//     [Options].BorrowAhead. If callers waited for a tick under a built-in clock, IDs may carry
//     that tick until 5 ms after it ended: else every other tick would be lost.
//   - Separate fields. No value spills into its neighbour, and every ID is >= 0. When a
//     layout's time runs out the caller gets [ErrTimeExhausted].
//   - Fair and bounded waits, never with the lock held. A call that waits for a tick has its
//     ID, so nobody is overtaken: if k calls wait and a tick has n IDs, the next call waits
//     for at most k/n+1 ticks, and the wake-up. If its turn would come after its deadline,
//     [Generator.NextIDContext] says so at once. A call waits for a clock that went back as
//     long as its policy agrees to (see [ActionWait]); if the clock stands still, the policy
//     is asked after 50 ms, however many calls arrive.
//
// # What you must see to
//
// HAZARD: two generators with one worker ID (and datacenter) issue the same IDs if they run
// at the same time. Nothing in an ID can reveal it. So never guess a worker ID from a process
// ID, a MAC or a random number: assign it, or lease it ([NewLeased]). Make one Generator when
// the program starts, and not one for each call: if [New] makes a second one with the same fields,
// slog.Default() gets a warning.
//
// HAZARD: a Generator made by [New] knows nothing of the generator before it. If a process
// restarts while its clock reads no later than the last tick that the earlier process
// stamped, IDs repeat. That tick is a whole second under [JSSafeLayout], and may be ahead of
// the clock by BorrowAhead. With ClockSeqPolicy or RewindPolicy, IDs can also repeat when the
// clock is set back after the restart. Set [Options].After, or use NewLeased.
//
// An ID shows its time and worker to everybody, and the next ID can be guessed, also with
// [Options].RandomStart. Show outsiders the texts of package opaque instead.
//
// # Choosing a layout
//
//	layout            bits (1)              workers   IDs per worker   until   for
//	DefaultLayout     41/-/10/12, ms        1,024     4,096 a ms       2095    nearly everyone
//	ClockSeqLayout    41/3/7/12, ms         128       4,096 a ms       2095    clocks that are set back, if waiting will not do
//	JSSafeLayout      33/-/4/15, s          16        32,768 a s       2298    IDs that must stay numbers in JavaScript
//	package layouts   as its table says                                        tables that have IDs of another system
//	Layout{...}       as you say, 63 in all                                    your own choice: a power of two of each
//
//	(1) time/clock sequence/worker/sequence; the time since 2026 in this unit
//
// HAZARD: an ID does not name its layout. If you change the layout of IDs that you have stored, old
// IDs are read wrongly, and new IDs can equal old IDs. [Layout.Follows] tells whether a change is
// safe.
//
// The command "snowflake layout NAME" draws a layout. From the day on which a layout's time ends
// ([Layout.Expires]), every call returns ErrTimeExhausted.
//
// # Choosing a policy for a clock that goes back
//
//	policy            when the clock reads earlier than the last ID            order kept
//	WaitPolicy(max)   wait for up to max, else fail (the default, 10 ms)       yes
//	FailPolicy        fail at once                                             yes
//	ClockSeqPolicy    go on at once under another clock sequence               no
//	RewindPolicy      go on at once in the earlier tick, with unused numbers   no
//	BackwardFunc(f)   choose among these by the size of the step               if it only fails and waits
//
// If the step back is smaller than BorrowAhead (less what a burst has used), IDs go on at once, in
// order, and no policy is asked.
//
// # Choosing where worker IDs come from
//
//	source                     use it when
//	NewLeased, lease.File      processes of one host share a directory
//	NewLeased, a lease.Store   processes of a fleet share a database, Redis, etcd, ...
//	New, package workerid      something numbers your processes: a variable, a StatefulSet
//
// # In tests
//
// With a clock that the test sets ([ClockFunc]), the IDs are the same each time. While it stands
// still there is one tick: the example of ClockFunc shows what happens after its last ID. In a
// [testing/synctest] bubble, all clocks and waits follow the bubble's time, which begins before
// [DefaultEpoch]: first sleep until time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC). Do not share a
// Generator between bubbles, or between a bubble and real time.
//
// To see what a program does when its lease has expired, give NewLeased a Lease of your own whose
// span has ended: see the example of [Lease].
package snowflake
