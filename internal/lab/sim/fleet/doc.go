//go:build go1.25

// Package fleet simulates whole fleets of processes that issue IDs, and looks for
// an ID that is issued twice, or for another broken promise.
//
// What runs are the real generator and the real lease code, in one process and in
// virtual time (testing/synctest). All else is simulated, and goes wrong: clocks
// that are off, drift, step, stand still, and disagree with the monotonic one;
// processes that crash, are restarted, paused or cloned; a network that loses,
// delays, repeats and reorders; a store that is down, steps its clock, or takes
// live holders for dead. A seed decides everything: New makes a Scenario of it,
// and Run runs one.
//
// # What is checked
//
// Of every ID: nobody issued it before. Its fields are its process's. Its timestamp is as
// near to the node's clock as promised. When it was issued, the bound in the store (or in
// the local copy) covered it.
//
// Of every window: it begins after all that was stamped with its clock sequence. A newcomer's begins
// at the last bound that was saved for its clock sequence or later, also if the store has lost that.
// A lease grants a window only up to a bound that the store has.
//
// Of every call: its order, unless the clock went back, how long it waited, and its deadline. If it
// fails, the error is a promised one. Stats counts right. Which IDs a call gets, when it returns,
// and whether an error has a reason, is checked by TestModel in package snowflake, which has a
// reference for it, and also other policies and clocks, calls of many goroutines, and BorrowAhead.
//
// Of every record that is saved: its token is its process's. A bound goes back only when the worker
// ID is given back, and not below what was stamped. Nobody takes a worker ID that a live holder has,
// that is kept for another owner or that was used once.
// No clock moves a bound ahead by more than MaxLeap, unless it has been there for MaxLeap.
//
// The program has no loop around its lease. It makes the lease with a context that ends soon
// afterwards, and keeps the lease whatever happens. (A node that Stops has such a loop.) So when
// all faults have ended, each node issues IDs again without a restart: within ten windows and ten
// seconds or, if its clock has leapt or gone back, within MaxLeap and three windows more. The only
// excuses are these: its time has run out; its worker IDs are taken or ahead of its clock; its
// clock is behind, or has not caught up with what it stamped; or the store's clock says that the
// node's clock is ahead.
//
// When all is well again, a run has a trouble or two (Trouble); a run with -troubles has six, and
// no random faults before them. After the end of each cause, bounds are kept (Bounds, and
// docs/operations.md): until each node issues IDs without a gap, until a newcomer has a worker ID,
// and until the watermark is less than two windows behind. One of ten runs with -troubles has a
// deployment and growth instead (Rolling), throughout which all is well and the watermark lags by no
// more than its bound. Readers with a past and readers that
// read once, as a command does, take turns by seed. If a bound is broken, the failure says what was
// late, by how much, who was waited for and what the store has. A store whose List is cut short
// breaks its promise, and is not simulated.
//
// Of the history: only holdings older than Options.History are forgotten, and it names who issued an
// ID, unless its issuer is forgotten. Whatever the store has lost, it never says that nobody issued an
// ID. Acquire never returns ErrLost, and returns when its context ends.
//
// A stale read is no fault here, because Store does not allow it and no store in this
// repository makes a stale read (ZooKeeper's asks its leader to sync first). What is allowed
// is simulated: entries of one List that are of different moments. A store that goes back to
// earlier values is a hazard that the docs name, and is not simulated either.
//
// In some runs the store loses entries: all, all of a kind, or one. The nodes then have
// windows of different lengths. If nothing else happens to a node that holds a worker ID, it
// keeps the worker ID, and all of its calls succeed.
//
// # Crashes at any instruction
//
// A process acts on the world by requests to the store, by files and by the IDs
// that it returns. A crash between two instructions is the same to the world as
// one at the last such act before it. So a process is killed at any time, and
// beside that at each point of a store call (before it is sent, on its way, when
// it is done, before the answer is looked at) and before each step of a save to a
// file: whatever its goroutines do afterwards has no effect.
//
// # What cannot be promised
//
// A machine that is cloned while it holds a lease holds it twice. If its hypervisor reports clones
// (Scenario.Guarded), no ID may repeat, because each copy takes another worker ID. Otherwise
// repeated IDs are allowed within the window that the two had in common when the machine was
// cloned, and nowhere else; Totals counts them. A process that takes the worker ID after one of the
// two has released it may repeat them, too.
//
// # Replay
//
// Events are spread at random over the nanoseconds, so that hardly any two happen at the same time,
// and a seed does the same each time. If two do, as in one of some hundred seeds, their order does
// not depend on the seed: try again. A test of internal/lab/sim runs seeds twice.
package fleet
