// Package snowflake issues 64-bit IDs in process, without a network call for each, and decodes
// them. An ID holds the time of its issue, its worker and a sequence number, so IDs are unique,
// sort by time, and fit a BIGINT primary key.
//
//	gen, err := snowflake.New(7, nil) // 7: a worker ID that no other process has
//	...
//	id, err := gen.NextID()
//	fmt.Println(id, snowflake.Decode(id))
//
// # Terms
//
// An ID is an integer of 63 bits, and never negative. A [Layout] divides the bits among fields.
// This is the ID 117469438034341891 of [DefaultLayout]:
//
//	 63  62                                      22 21       12 11         0
//	+---+-------------------------------------------+------------+--------------+
//	| 0 | 00000011010000101010101110101001101111000 | 0000000111 | 000000000011 |
//	+---+-------------------------------------------+------------+--------------+
//	sign  time: 41 bits                               worker: 10   sequence: 12
//	      28,006,896,504 ms after the epoch           7            3
//	      = 2026-11-21 03:41:36.504 UTC
//
// The documentation uses these terms:
//
//   - The epoch is the instant at which the time field is 0: 2026-01-01 for DefaultLayout.
//   - A tick is one unit of the time field, usually a millisecond. To stamp a tick is to issue an
//     ID whose time is that tick.
//   - The worker ID is the number that identifies a process in its IDs. A [Lease] lends it to one
//     process at a time.
//   - The sequence distinguishes one worker's IDs within a tick. When all its numbers are used, it
//     is spent, and callers wait for the next tick.
//   - The clock sequence, in some layouts, distinguishes the IDs stamped before the clock was set
//     back from those stamped after.
//
// # The promise
//
// A [Generator] never issues an ID twice, even if its clock is set back, is set forward, stops or
// leaps. If the promise cannot be kept, the caller gets an error, at once, and nothing has changed.
// A Generator also promises:
//
//   - Order. A call that begins after another has returned gets a larger ID, even if a lease has
//     replaced the worker ID in between. ClockSeqPolicy and RewindPolicy give this up when the
//     clock goes back.
//   - Truth. A timestamp is a tick that the clock reads during the call, or later by at most
//     Options.BorrowAhead. If callers waited for a tick under a built-in clock, IDs may carry that
//     tick until 5 ms after it ended, because callers wake up late.
//   - Separate fields. No value spills into its neighbour, and every ID is >= 0. When a layout's
//     time has run out, the caller gets [ErrTimeExhausted].
//   - Fair and bounded waits, never with the lock held. A call that waits for a tick already has
//     its ID, so no call is overtaken: if k calls wait and a tick has n IDs, the next call waits
//     for at most k/n+1 ticks and the time to wake up. (A Fill counts as up to n calls.) If the
//     clock goes back, a call waits as long as its policy allows (see [ActionWait]). If the clock
//     stands still, the policy is asked after 50 ms or, if that is more, after twice the time for
//     which the clock ran during the wait.
//
// # What you must ensure
//
// HAZARD: two generators with one worker ID (and datacenter) issue the same IDs if they run at the
// same time, and nothing in an ID reveals it. Never guess a worker ID from a process ID, a MAC
// address or a random number: assign or lease it.
//
// HAZARD: a Generator made by [New] does not know what an earlier generator issued. If a process
// restarts while its clock reads no later than the last tick that the earlier process stamped, IDs
// repeat. That tick is a whole second under JSSafeLayout, and may be ahead of the clock by
// BorrowAhead. With ClockSeqPolicy or RewindPolicy, IDs can also repeat if the clock is set back to
// a time before the restart. Set Options.After, or use [NewLeased].
//
// HAZARD: an ID does not name its layout. If you change the layout of IDs that you have stored, old
// IDs decode wrongly, and new IDs can equal old IDs. [Layout.Follows] reports whether a change is
// safe.
//
// An ID reveals its time and worker, and the next ID can be guessed, even with Options.RandomStart.
// Show outsiders the texts of package opaque instead.
//
// # Choosing a layout
//
//	layout           bits (1)        workers  IDs per worker  until  for
//	DefaultLayout    41/-/10/12, ms  1,024    4,096 a ms      2095   nearly everyone
//	ClockSeqLayout   41/3/7/12, ms   128      4,096 a ms      2095   clocks that are set back (2)
//	JSSafeLayout     33/-/4/15, s    16       32,768 a s      2298   JavaScript (3)
//	package layouts  see its table                                   IDs of another system
//	Layout{...}      up to 63        n bits hold 2^n values          other needs
//
//	(1) time/clock sequence/worker/sequence, and the unit of the time, which is counted from 2026
//	(2) if callers cannot wait until the clock has caught up
//	(3) if IDs must be numbers there; IDs of the other layouts must be strings
//
// # Choosing a policy for a clock that goes back
//
//	policy           when the clock reads earlier than the last ID             order kept
//	WaitPolicy(max)  waits if it takes no longer than max (by default 10 ms),  yes
//	                 otherwise fails
//	FailPolicy       fails at once                                             yes
//	ClockSeqPolicy   continues at once under another clock sequence            no
//	RewindPolicy     continues at once in the earlier tick, with unused        no
//	                 sequence numbers
//	BackwardFunc(f)  does what f chooses, for example by the size of the step  if f fails or waits
//
// If the step back is smaller than BorrowAhead (less what a burst has used), IDs continue at once,
// in order, and the policy is not asked.
//
// # Choosing where worker IDs come from
//
//	source                     use it when
//	NewLeased, lease.File      processes of one host share a directory
//	NewLeased, a lease.Store   processes of a fleet share a database, Redis, etcd, ...
//	New, package workerid      something numbers your processes: a variable, a StatefulSet
//
// # In other libraries
//
// In JSON, YAML, flags, parameters and logs, an ID is a string, because JavaScript rounds integers
// above 2^53. HAZARD: some libraries look at a type's kind before its methods, and refuse, misread
// or round IDs. docs/recipes.md and docs/rounding.md list them.
//
// # In tests
//
// With a clock that the test sets ([ClockFunc]), the IDs are the same in each run; while it stands
// still, there is only one tick. To test an expired lease, give NewLeased a [Lease] of your own.
//
// A [testing/synctest] bubble begins before DefaultEpoch: first sleep until time.Date(2026, 6, 1,
// 12, 0, 0, 0, time.UTC). Set Options.Clock to SystemClock(), and do not use the Generator outside
// the bubble. Without a Clock, tests share Generators: no ID repeats, but the clock goes back if a
// bubble begins before the last ID.
package snowflake
