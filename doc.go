// Package snowflake issues 64-bit IDs in process, without a network call per
// ID, and reads them back. An ID carries its time, the worker that issued it
// and a sequence number, so that IDs are unique, order by time, and fit a
// BIGINT primary key.
//
//	gen, err := snowflake.New(7, nil) // 7: a worker ID that no other process has
//	...
//	id, err := gen.NextID()
//	fmt.Println(id, snowflake.Decode(id))
//
// # The promise
//
// No ID is issued twice by a Generator, whatever its clock reads: set back, set
// forward, stopped or leaping. A wrong clock may cost availability, never a
// duplicate. If the promise cannot be kept, the caller gets an error, at once,
// and nothing has changed. Besides:
//
//   - Order. IDs of one Generator strictly increase: a call that begins after
//     another has returned gets a larger ID, also after a lease has replaced the
//     worker ID. [ClockSeqPolicy] and [RewindPolicy] give this up when the clock
//     goes back.
//   - Truth. A timestamp is the tick that the clock reads, or later by at most
//     [Options].BorrowAhead. Under a built-in clock it may also be a tick that
//     ended less than 5 ms ago, when callers had waited for that tick; and
//     that clock may be 100 ms late to follow a step of the wall clock, or
//     10 ms ahead of a wall clock that is being slewed.
//   - Fields never touch. No value spills into its neighbour, every ID is >= 0,
//     and every ID of [JSSafeLayout] is <= 2^53-1. When a layout's time runs out
//     the caller gets [ErrTimeExhausted].
//   - Fair and bounded waiting, and none under the lock. Callers that wait for a
//     tick are served in order of arrival: if k callers wait and a tick has n
//     IDs, the next caller waits for at most k/n+1 ticks, and the wake-up. A call
//     waits for the clock as long as its policy agrees to (see [ActionWait]);
//     when the clock stands still the policy is asked after 50 ms or, if a tick
//     is longer, a tick. If a call's turn comes after its deadline,
//     [Generator.NextIDContext] says so at once.
//
// # What you must see to
//
// HAZARD: two generators with one worker ID (and datacenter) issue the same IDs
// whenever they run at the same time. Nothing in an ID can detect it. It is the
// commonest fault of systems of this kind, so never guess a worker ID from a
// process ID, a MAC or a random number: assign it, or lease it ([NewLeased]).
//
// HAZARD: a Generator made by [New] knows nothing of the one before it. When a
// process restarts while its clock reads the last tick that the earlier process
// stamped, or less, IDs repeat. That tick is a whole second under
// [JSSafeLayout], and may be ahead of the clock by [Options].BorrowAhead; and a
// clock that is set back later, under a policy that lets order go, brings the
// same danger. Set [Options].After to the largest ID that you stored, or use
// [NewLeased].
//
// HAZARD: JavaScript rounds integers above 2^53. An [ID] is a string in JSON for
// that reason; [JSSafeLayout] keeps below.
//
// HAZARD: an ID shows its time and worker to everybody, and the next one can be
// guessed. [Options].RandomStart makes that harder; it does not make an ID a
// secret. Show outsiders the texts of package opaque instead.
//
// # Choosing a layout
//
//	layout            workers       IDs per worker    until    for
//	DefaultLayout     1,024         4,096 a ms        2095     nearly everyone
//	ClockSeqLayout    128           4,096 a ms        2095     clocks that are set back, if waiting will not do
//	JSSafeLayout      16            32,768 a s        2298     IDs that must stay numbers in JavaScript
//	TwitterLayout     32 x 32       4,096 a ms        2080     datacenters; IDs beside Twitter's
//	BwmarrinLayout    1,024         4,096 a ms        2080     IDs beside those of bwmarrin/snowflake, or of Leaf
//	SonyflakeLayout   65,536        256 in 10 ms      2188     many workers with few IDs each; IDs beside sonyflake's, version 1
//	SonyflakeV2Layout 65,536        256 in 10 ms      2199     IDs beside those of sonyflake, version 2
//	RedisLayout       4,096         1,024 a ms        2039     IDs beside those of a Redis script
//	Layout{...}       as you say    as you say                 a power of two of each
//
// [BaiduLayout], [DiscordLayout] and [InstagramLayout] read those systems' IDs.
//
// # Choosing a policy for a clock that goes back
//
//	policy            when the clock is behind the last ID                     order kept
//	WaitPolicy(max)   wait for up to max, else fail (the default, 10 ms)       yes
//	FailPolicy        fail at once                                             yes
//	ClockSeqPolicy    go on at once under another clock sequence               no
//	RewindPolicy      go on at once in the earlier tick, after its sequence    no
//	your own          choose among these by how far the clock is behind        if it only fails and waits
//
// With [Options].BorrowAhead, a step back that is smaller than BorrowAhead (less
// what a burst has used) needs no policy: IDs go on at once and in order. With 2 h
// of it, and a clock that is set back by 1 h, nobody notices.
//
// # Choosing where worker IDs come from
//
//	source                     use it when
//	NewLeased, lease.File      processes of one host share a directory
//	NewLeased, a lease.Store   processes of a fleet share an engine
//	New, package workerid      something numbers your processes: a variable, a StatefulSet
//
// Package [github.com/seed-5394e6b1/snowflake/lease] has the protocol.
//
// # In tests
//
// Do not share a Generator between bubbles, or between a bubble and real time.
// All clocks and waits follow the time of a [testing/synctest] bubble. It begins
// in the year 2000, which is before [DefaultEpoch], so give it another epoch:
//
//	layout := snowflake.DefaultLayout()
//	layout.Epoch = snowflake.UnixEpoch
package snowflake
