// Package snowflake issues 64-bit IDs in process, without a network call per
// ID, and reads them back. An ID carries its time, the worker that issued it
// and a sequence number. So IDs are unique, sort by time, and fit a BIGINT
// primary key.
//
//	gen, err := snowflake.New(7, nil) // 7: a worker ID that no other process has
//	...
//	id, err := gen.NextID()
//	fmt.Println(id, snowflake.Decode(id))
//
// # Terms
//
//   - A [Layout] divides the bits of an ID among its fields.
//   - A tick is the unit in which the time field counts: a millisecond, unless the
//     layout has another.
//   - A generator stamps a tick when it issues an ID with that time.
//   - The sequence is a number that tells apart the IDs which a worker stamps in
//     one tick. It is spent when all of a tick's numbers are used.
//   - A policy ([BackwardPolicy]) chooses what a call does when the clock reads
//     earlier than the last ID.
//   - A lease lends a worker ID to one process at a time.
//
// # The promise
//
// No ID is issued twice by a Generator, whatever its clock reads: set back, set
// forward, stopped or leaping. A wrong clock may cost availability, never a
// duplicate. If the promise cannot be kept, the caller gets an error, at once,
// and nothing has changed. Besides:
//
//   - Order. IDs of one Generator strictly increase: a call that begins after
//     another has returned gets a larger ID, also if a lease has replaced the
//     worker ID. [ClockSeqPolicy] and [RewindPolicy] give this up when the clock
//     goes back.
//   - Truth. A timestamp is the tick that the clock reads, or later by at most
//     [Options].BorrowAhead. A built-in clock follows a step of the wall clock
//     within 100 ms, and runs at most 10 ms ahead of a wall clock that is being
//     slewed. If callers waited for a tick under a built-in clock, IDs may carry
//     that tick until 5 ms after it ended.
//   - Separate fields. No value spills into its neighbour, every ID is >= 0,
//     and every ID of [JSSafeLayout] is <= 2^53-1. When a layout's time runs out
//     the caller gets [ErrTimeExhausted].
//   - Fair and bounded waits, never with the lock held. Callers that wait for a
//     tick are served in order of arrival: if k callers wait and a tick has n
//     IDs, the next caller waits for at most k/n+1 ticks, and the wake-up. A call
//     waits for the clock as long as its policy agrees to (see [ActionWait]).
//     If the clock stands still, the policy is asked after 50 ms or one tick,
//     whichever is longer. If a call's turn would come after its deadline,
//     [Generator.NextIDContext] says so at once.
//
// # What you must see to
//
// HAZARD: two generators with one worker ID (and datacenter) issue the same IDs
// if they run at the same time. Nothing in an ID can reveal it. This is the
// commonest fault of systems of this kind, so never guess a worker ID from a
// process ID, a MAC or a random number: assign it, or lease it ([NewLeased]).
//
// HAZARD: a Generator made by [New] knows nothing of the generator before it.
// If a process restarts while its clock reads no later than the last tick that
// the earlier process stamped, IDs repeat. That tick is a whole second under
// [JSSafeLayout], and may be ahead of the clock by [Options].BorrowAhead. With
// ClockSeqPolicy or RewindPolicy, IDs can also repeat when the clock is set
// back after the restart. Set [Options].After to the largest ID that you
// stored, or use [NewLeased].
//
// Two more properties of these IDs surprise people, though no ID repeats:
//
//   - JavaScript rounds integers above 2^53. So an [ID] is a string in JSON. If
//     your IDs must be numbers there, use [JSSafeLayout].
//   - An ID shows its time and worker to everybody, and the next ID can be
//     guessed. [Options].RandomStart makes guessing harder; it does not make an
//     ID a secret. Show outsiders the texts of package opaque instead.
//
// # Choosing a layout
//
//	layout            workers       IDs per worker    until    for
//	DefaultLayout     1,024         4,096 a ms        2095     nearly everyone
//	ClockSeqLayout    128           4,096 a ms        2095     clocks that are set back, if waiting will not do
//	JSSafeLayout      16            32,768 a s        2298     IDs that must stay numbers in JavaScript
//	TwitterLayout     32 x 32       4,096 a ms        2080     datacenters; tables that have Twitter's IDs
//	BwmarrinLayout    1,024         4,096 a ms        2080     tables that have IDs of bwmarrin/snowflake, or of Leaf
//	SonyflakeLayout   65,536        256 in 10 ms      2188     many workers with few IDs each; tables that have IDs of sonyflake, version 1
//	SonyflakeV2Layout 65,536        256 in 10 ms      2199     tables that have IDs of sonyflake, version 2
//	RedisLayout       4,096         1,024 a ms        2039     tables that have IDs of a Redis script
//	Layout{...}       as you say    as you say                 your own choice: a power of two of each
//
// [BaiduLayout], [DiscordLayout] and [InstagramLayout] read those systems' IDs.
//
// # Choosing a policy for a clock that goes back
//
//	policy            when the clock reads earlier than the last ID            order kept
//	WaitPolicy(max)   wait for up to max, else fail (the default, 10 ms)       yes
//	FailPolicy        fail at once                                             yes
//	ClockSeqPolicy    go on at once under another clock sequence               no
//	RewindPolicy      go on at once in the earlier tick, with unused numbers   no
//	your own          choose among these by the size of the step               if it only fails and waits
//
// [Options].BorrowAhead lets timestamps run ahead of the clock. A step back that
// is smaller than BorrowAhead (less what a burst has used) needs no policy: IDs go
// on at once and in order. If BorrowAhead is 2 h and the clock is set back by 1 h,
// nobody notices.
//
// # Choosing where worker IDs come from
//
//	source                     use it when
//	NewLeased, lease.File      processes of one host share a directory
//	NewLeased, a lease.Store   processes of a fleet share a database, Redis, etcd, ...
//	New, package workerid      something numbers your processes: a variable, a StatefulSet
//
// Package [github.com/seed-5394e6b1/snowflake/lease] describes the protocol.
//
// # In tests
//
// In a [testing/synctest] bubble, all clocks and waits follow the bubble's time.
// Do not share a Generator between bubbles, or between a bubble and real time.
// A bubble begins in the year 2000, before [DefaultEpoch], so choose another
// epoch:
//
//	layout := snowflake.DefaultLayout()
//	layout.Epoch = snowflake.UnixEpoch
package snowflake
