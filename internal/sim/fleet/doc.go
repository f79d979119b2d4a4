// Package fleet simulates whole fleets of processes that issue IDs, and looks for
// one that is issued twice, or for another broken promise.
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
// Of every ID: that nobody issued it before; that its fields are its process's;
// that its timestamp is within its bound of what the node's clock said; that the
// bound in the store (or in the local copy) covered it when it was issued, and
// that it does not lie before the one that its holder found.
// Of every window: that it begins behind all that was stamped with its clock sequence. Of every call: its
// order, how long it waited, its deadline, that an error is one of those promised
// and has a reason, and that Stats counts right. Of every record that is saved:
// that no bound goes back but to what was stamped, that nobody takes what a live
// holder has, what is kept for another or what was used once, and that no clock
// burns more of the future than MaxLeap, unless it has been where it is for MaxLeap.
//
// The program has no loop around its lease: it makes one, with a context that ends
// after that, and keeps it whatever happens. (A node that Stops has such a loop.) So,
// when all faults have ended, each node issues IDs again without a restart: within ten
// windows and ten seconds or, if its clock has leapt or is behind, within MaxLeap and
// three windows more. The only excuses are that its time has run out, that its worker
// IDs are taken or ahead of its clock, that its clock is behind what it stamped, or that
// the store's clock says that the node's is ahead.
//
// Of the history: that each holding is kept as it was when it was replaced, that only
// what is older than Options.History is dropped, and that no two have an instant in
// common. Of Whois: that it names who issued an ID, and says so of an ID that nobody can
// have issued or whose issuer is forgotten. Of the waits for a renewal: that none is
// longer than a third of a window or goes past its deadline, and that there is none
// while renewals fail. Acquire never returns ErrLost, and returns when its context ends.
//
// A stale read is not among the faults, because Store does not allow it and none
// of the stores here makes one (ZooKeeper's asks its leader to sync first). What
// is allowed is simulated: records of one Load that are of different moments. A
// store that loses what it acknowledged is a hazard that the docs name, and is not
// simulated either.
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
// A machine that is cloned while it holds a lease holds it twice. Repeated IDs
// are allowed within the window that the two had in common when it was cloned,
// and nowhere else; Totals counts them. They may also be those of whoever took
// the worker ID after one of the two had released it.
//
// # Replay
//
// Chance spreads what happens over the nanoseconds, so that hardly any two things
// happen at one time, and a seed does the same each time. If two do, as in one
// of some hundred seeds, their order is not the seed's: try again. TestReplays runs seeds twice.
package fleet
