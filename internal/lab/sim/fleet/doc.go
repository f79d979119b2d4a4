//go:build go1.25

// Package fleet simulates fleets of processes that issue IDs, and looks for an ID that is issued
// twice or another broken promise.
//
// The generator and the leases are the real code, in one process and in virtual time
// (testing/synctest). Everything else is simulated and fails: clocks that are wrong, drift, step,
// stop, and disagree with the monotonic clock; processes that crash, restart, are paused or cloned;
// a network that loses, delays, repeats and reorders messages; a store that is down, steps its
// clock, or takes live holders for dead. A seed decides everything: New makes a Scenario of it, and
// Run runs the scenario.
//
// # Checks
//
// Of every ID: it is new. Its fields are its process's. Its timestamp is as close to the node's
// clock as promised. The bound in the store covered it when it was issued. It is above every
// watermark read before the call or, with a Hold, before the end of the Hold.
//
// Of every window: it begins after everything stamped with its clock sequence. A newcomer's begins
// at the last bound saved for its clock sequence or later, also if the store has lost that bound.
// A lease grants a window only up to a bound that the store has.
//
// Of every call: its order, unless the clock went back; its wait; its deadline; and its error, which
// is a promised one. Package snowflake's TestModel checks the rest against a reference: which IDs a
// call gets, when it returns, the reason of each error, Stats, other policies and clocks, calls of
// many goroutines, and BorrowAhead.
//
// Of every saved record: its token is its process's. A bound goes back only on release, and not
// below what was stamped. No process takes a worker ID that a live holder has, that is kept for
// another owner, or that was used once. If the store has a clock, no other clock moves a bound ahead
// of it by more than MaxLeap. Stories (lease/testdata/stories/leaps.txtar) tell of stores without
// a clock, and when a lease is renewed.
//
// Of every process: it makes at most 1,000 requests to the store in a second.
//
// Of recovery: a program keeps its lease whatever happens. Once all faults have ended, each node
// issues IDs again without a restart: within ten windows and ten seconds (three windows and 40 s if
// that is less) or, if its clock has leapt or gone back, within MaxLeap and three windows more. A
// node is excused if its worker IDs are taken or ahead of its clock, if its clock is behind what it
// stamped, or if the store's clock says that the node's clock is ahead.
//
// Of troubles: when all is well, a run has one or two, and a run with -troubles six, without random
// faults before them. From the end of each cause, Bounds (and docs/operations.md) limit the time
// until each node issues IDs without a gap, until a newcomer has a worker ID, and until the
// watermark lags by less than two windows. One of ten runs with -troubles has a deployment and
// growth instead (Rolling), during which the watermark's lag is bounded throughout.
//
// Of the history: only holdings older than Options.History are forgotten. The history names the
// issuer of every other ID and, whatever the store has lost, never claims that an issued ID was not
// issued. Acquire never returns ErrLost, and returns when its context ends.
//
// # Wiped stores
//
// In some runs the store loses entries: all, all of a kind, or one. Nodes then have windows of
// different lengths. A node that holds a worker ID and has no other fault keeps the worker ID, and
// all of its calls succeed.
//
// # Crashes between any two instructions
//
// A process acts on the world by requests to the store and by the IDs that it returns. To the world,
// a crash between two instructions is a crash at the last such act before it. So processes are
// killed at random times and at each point of a request: before it is sent, on its way, when it is
// done, before its answer is read. What the goroutines of a killed process do afterwards has no
// effect.
//
// # Not simulated
//
// Stale reads, lists that are cut short, and a store that goes back to earlier values: package
// driver forbids the first two, and the docs name the third as a hazard. Entries of one List may be
// of different moments, which is allowed. Options.LocalCopy: package lease's
// TestNextStartRepeatsNoIDWhicheverStepFails fails and kills at each step of the disk and the store,
// and a scope of its small worlds has local copies. OnLoss: Stop, of which stories tell.
//
// # What cannot be promised
//
// The copies of a machine that is cloned while it holds a lease both hold it. If the hypervisor
// reports clones (Scenario.Guarded), no ID may repeat, because each copy takes another worker ID.
// Otherwise IDs may repeat within the window that the copies had in common, and nowhere else;
// Totals counts them. A process that takes the worker ID after one copy has released it may repeat
// them, too.
//
// # Replay
//
// Events are spread at random over the nanoseconds, so hardly any two happen at the same time, and
// a seed repeats exactly. In one of some hundred seeds two do, and their order is the scheduler's:
// run the seed again. A test of internal/lab/sim runs seeds twice.
package fleet
