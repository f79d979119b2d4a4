//go:build go1.25

package lease

import (
	"cmp"
	"flag"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// The files explore_*_test.go run every sequence of steps of small worlds, and look for one that
// breaks an invariant of doc.go. Such a sequence is called a story. The code is the real code:
// Acquire, the loop that renews, Release, Watermark and the generator. The world around it makes
// one step at a time: the store serves a request, a process gets an answer or an error, a rest
// ends, a clock is set, a process crashes, a tick passes. Two stories that lead to the same state
// have the same future, so only one is continued. To compare leases, these files need the
// unexported fields of package lease, so they are among its tests.
//
// There are no timers, and only one coroutine runs at a time. What a process does depends on what
// it got before: replies, and readings of its clocks. Each such past is lived through once, and the
// process stays there until a world continues with it (life). A world that continues in another way
// gets a process that lives through the same again (past). A lease is at rest while it only waits
// for its next renewal; then its renewing begins anew, with nothing but what the lease knows.
//
// A state is the time, the entries of the store, the requests under way, the IDs and, for each
// process, its lease at rest, what happened to its generator, and the replies since then.
//
// These steps are left out, and nothing is lost:
//
//   - A step that no other process notices (a call, a crash, a step of a clock, the beginning of a
//     renewal that first saves) comes directly after the last step of its process, after a tick,
//     after a watermark was returned, or after such a step of an earlier process. Elsewhere it
//     would have the same effect (mayMove).
//   - A request is served at once if no other process of the scope changes its entry in a way that
//     matters (calm): the entry of an owner, the marks and the entry "store" if no entries are
//     lost, and the watermark if it has no reader.
//   - A search that rests forgets what it has read, but not since when it waits, and since when
//     entries are unchanged (search.wait).
//   - The processes that have not begun are alike, so the first of them begins. Before any has
//     begun, the worker IDs are alike, so the process looks at one of them first (lucks).
//   - States that differ only in how often something was saved, or in times that no function reads,
//     are the same (world.state).
//
// TestWhatIsLeftOutChangesNothing compares small scopes with worlds in which all steps are there.
//
// These steps are left out, and something may be lost: clocks and windows that are not whole ticks
// and half a tick; a process that stops between two requests of which the second is a read, more
// often than the scope says; other processes that move between two requests for the entry
// "silence", except in two scopes; a loss of entries before a request that is served
// at once; a search that rests for less than a tick; requests that time out; and more ticks,
// faults, processes and IDs.

// tick is the unit of the layout, of the clocks' steps and of the windows.
const tick = 20 * time.Second

// scope says what may happen in a world.
type scope struct {
	name      string
	workers   int     // number of worker IDs
	seqBits   uint8   // bits of the clock sequence
	processes int     // number of processes that ask for a worker ID; two are up at once
	readers   int     // number of processes that read the watermark
	held      bool    // whether the first process has a worker ID at the beginning
	ahead     int     // ticks by which the clock of the first process is ahead at the beginning
	clockless bool    // whether the store has no clock
	copies    bool    // whether the processes have one owner and one local copy
	silence   bool    // whether the store serves requests for the entry "silence" in steps (calm)
	window    int     // ticks of a window; 0 means 1
	ticks     int     // ticks that pass
	ids       int     // IDs of each process
	releases  int     // calls of Release
	faults    int     // faults of all kinds
	most      perKind // faults of each kind; forward includes backward
	by        int     // ticks by which a clock is set
	back      bool    // whether clocks are only set backward
	heals     bool    // whether, after the ticks, time passes until no window under a lost record is open
	every     int     // number of new states for each that checkRecovery continues; 0 means none
	exact     bool    // whether no states count as the same
	unordered bool    // whether mayMove and calm leave nothing out
}

// perKind has a number for each kind of step.
type perKind [kinds]int

// healed returns the number of ticks after a loss until no window under a lost record is open.
func (s *scope) healed() int { return int((protocol.Healing(tick) + tick - 1) / tick) }

// span returns the number of ticks of a window.
func (s *scope) span() int { return max(1, s.window) }

// enlarge adds ticks, and faults of each kind that the scope has.
func (s *scope) enlarge(ticks, faults int) {
	s.ticks += ticks
	s.faults += faults
	for k, most := range s.most {
		if most > 0 {
			s.most[k] += faults
		}
	}
}

// layout returns the layout of the IDs.
func (s *scope) layout() snowflake.Layout {
	bits := uint8(0)
	for 1<<bits < s.workers {
		bits++
	}
	return snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: tick, TimeBits: 40, WorkerBits: bits, ClockSeqBits: s.seqBits, SequenceBits: 4}
}

// scopes are what go run ./internal/lab/proof explores, the largest first. The ordinary test
// explores the first states of each.
var scopes = []scope{
	{name: "everything", workers: 2, seqBits: 1, processes: 2, held: true, ticks: 2, faults: 1, most: perKind{crash: 1, pause: 1, delay: 1, fail: 1, forward: 1, lose: 1}, by: 2},
	{name: "ahead", workers: 1, processes: 1, readers: 1, held: true, ahead: 2, ticks: 2, ids: 1, faults: 1, most: perKind{forward: 1}, by: 3},
	{name: "race", workers: 1, processes: 2, ticks: 1, faults: 1, most: perKind{crash: 1, pause: 1, fail: 1}},
	{name: "tenure", workers: 1, processes: 2, held: true, ticks: 3, faults: 1, most: perKind{crash: 1, fail: 1}},
	{name: "answers", workers: 1, processes: 2, held: true, ticks: 3, faults: 1, most: perKind{pause: 1, delay: 1}},
	{name: "release", workers: 1, processes: 2, held: true, ticks: 2, ids: 1, releases: 1, faults: 1, most: perKind{fail: 1}},
	{name: "clocks", workers: 1, processes: 2, held: true, ticks: 3, faults: 2, most: perKind{forward: 2}, by: 2},
	{name: "behind", workers: 1, processes: 2, held: true, ticks: 2, ids: 1, faults: 1, most: perKind{forward: 1}, by: 1},
	{name: "replacement", workers: 2, seqBits: 1, processes: 2, held: true, ticks: 4},
	{name: "sequences", workers: 1, seqBits: 1, processes: 2, held: true, ticks: 1, ids: 2, releases: 1, faults: 1, most: perKind{forward: 1}, by: 1},
	{name: "losses", workers: 1, processes: 2, held: true, ticks: 1, faults: 2, most: perKind{lose: 1, pause: 1}, silence: true, heals: true},
	{name: "watermark", workers: 1, processes: 1, readers: 1, held: true, ticks: 2, ids: 1},
	{name: "newcomer", workers: 1, processes: 1, readers: 1, ticks: 2, ids: 1, faults: 1, most: perKind{forward: 1}, by: 1},
	{name: "bump", workers: 1, seqBits: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 2, faults: 1, most: perKind{forward: 1}, by: 1},
	{name: "overdue", workers: 1, processes: 1, readers: 1, held: true, ahead: -1, ticks: 2, ids: 1},
	{name: "undo", workers: 1, processes: 3, held: true, ticks: 1, ids: 1, releases: 1, faults: 1, most: perKind{forward: 1}, by: 2},
	{name: "marks", workers: 1, processes: 3, held: true, ahead: 1, ticks: 2, faults: 2, most: perKind{lose: 1, crash: 1}},
	{name: "unreadable", workers: 2, processes: 2, held: true, ticks: 1, faults: 1, most: perKind{garble: 1}, every: 4},
	{name: "alive", workers: 1, processes: 2, held: true, ahead: -1, window: 2, ticks: 2, faults: 1, most: perKind{lose: 1}},
	{name: "again", workers: 1, processes: 2, held: true, ticks: 3, ids: 1, releases: 1},
	{name: "sequence", workers: 1, seqBits: 1, processes: 1, held: true, ticks: 3, ids: 4, faults: 2, most: perKind{forward: 2}, by: 1, back: true},
	{name: "readers", workers: 1, processes: 2, readers: 2, held: true, ids: 1, faults: 1, most: perKind{forward: 1}, by: 1},
	{name: "clockless", workers: 1, processes: 2, held: true, clockless: true, ticks: 3, faults: 1, most: perKind{crash: 1, fail: 1}},
	{name: "silence", workers: 1, processes: 2, held: true, clockless: true, silence: true, ticks: 3, faults: 1, most: perKind{crash: 1}},
	{name: "copy", workers: 1, processes: 2, held: true, clockless: true, copies: true, ticks: 2, ids: 1, faults: 2, most: perKind{outage: 1, crash: 1}},
	{name: "older", workers: 1, processes: 2, held: true, clockless: true, copies: true, ticks: 2, ids: 1, faults: 2, most: perKind{crash: 1, older: 1}},
	{name: "removed", workers: 2, processes: 1, held: true, clockless: true, copies: true, ticks: 3, ids: 1, faults: 2, most: perKind{outage: 1, remove: 1}},
	{name: "gone", workers: 2, processes: 2, held: true, clockless: true, copies: true, ticks: 1, ids: 1, faults: 2, most: perKind{outage: 1, remove: 1}},
	{name: "floor", workers: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 1, faults: 1, most: perKind{forward: 1}, by: 1},
}

var (
	one        = flag.String("scope", "", "the scope of TestEveryInterleaving; empty: all")
	listScopes = flag.Bool("scopes", false, "TestEveryInterleaving only lists the scopes")
	moreTicks  = flag.Int("more-ticks", 0, "ticks that TestEveryInterleaving adds to each scope; may be negative")
	moreFaults = flag.Int("more-faults", 0, "faults, of each kind that a scope has, that TestEveryInterleaving adds to it")
)

// recoverEvery is the default of scope.every. The continuations cost a fifth of the time.
const recoverEvery = 64

// oneStepAtATime skips a test without goroutines if the race detector would only slow it down
// tenfold.
func oneStepAtATime(t *testing.T) {
	if depth.Race {
		t.Skip("the other tests look for races")
	}
}

func TestEveryInterleaving(t *testing.T) {
	oneStepAtATime(t)
	for _, s := range scopes {
		if *one != "" && s.name != *one {
			continue
		}
		if *listScopes {
			t.Log("scope:", s.name)
			continue
		}
		s.enlarge(*moreTicks, *moreFaults)
		s.every = cmp.Or(s.every, recoverEvery)
		t.Run(s.name, func(t *testing.T) {
			begun, limit := time.Now(), math.MaxInt
			if *one == "" {
				limit, s.every = depth.Of(300, 3000), recoverEvery
			}
			e := s.explore(t, true, limit)
			if e.broken == "" {
				t.Logf("%s: %d states, %d steps, %d continued, %.1f s", s.name, len(e.seen), e.steps, e.continued, time.Since(begun).Seconds())
				return
			}
			states := len(e.seen)
			if s.every = 0; !e.recovering {
				if shortest := s.explore(t, false, 2*states); shortest.broken != "" {
					e = shortest
				}
			}
			t.Fatalf("a story of %d steps, after %d states:\n%s\nBROKEN: %s", len(e.story), states, strings.Join(e.words(t), "\n"), e.broken)
		})
	}
}
