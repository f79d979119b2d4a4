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

// These files tell every story of a small world, and look for a story in which the invariants of
// doc.go are broken. The code is the real code: what Acquire does, the loop that renews, Release,
// Watermark and the generator. The world around it does one step at a time: the store makes a
// request, a process gets an answer or an error, a rest ends, a clock is set, a process crashes, a
// tick passes. Two stories that lead to the same state have the same future, so only one is
// continued.
//
// There are no goroutines and no timers. What a process does is a function of its lease at rest and
// of what it hears. So a process that does something is that lease and the replies so far. To go
// on, it begins anew with a copy of the lease, hears the replies again, and makes one more request.
// This request gets an error, as all do that follow, so the process leaves by its path for errors,
// and what it did since is thrown away (replay). The generator is made anew from what happened to
// it.
//
// A state is the time, the entries, the requests under way, what was issued and, for each process,
// its lease at rest, what happened to its generator, and what it has heard since.
//
// What is left out, and why it loses nothing:
//
//   - A step that no other process notices (a call, a crash, a step of a clock, the beginning of a
//     renewal that first saves) comes directly after the last step of its process, after a tick,
//     after a watermark was returned, or after such a step of an earlier process: it would have the
//     same effect there (mayMove).
//   - A request is made at once if nobody in the scope changes its entry in a way that matters
//     (calm): the entry of an owner, the marks and the entry "store" if no entries are lost, and
//     the watermark if nobody reads it.
//   - A process that searches and rests forgets what it has read, but for since when entries have
//     not changed (search.wait).
//   - The processes that have not begun are the same, so the first of them begins. If no process
//     has begun, the worker IDs are the same, so the process looks at one of them first (lucks).
//   - States that differ only in how often something was saved, and in times that no function
//     reads, are the same (world.state).
//
// explore_reduce_test.go compares small scopes with worlds in which nothing is left out.
//
// What is left out, and may lose something: clocks and windows are whole ticks and half a tick; a
// process stops between two requests of which the second is a read at most so often as the scope
// says; only in the scope "silence" do other processes move between two requests for the entry
// "silence"; a rest ends in the tick in which it is due, or later, but a search rests for a tick at
// least; no request has a time-out; and the number of ticks, faults, processes and IDs is small.
//
// explore_world_test.go has the steps, explore_process_test.go the processes,
// explore_generator_test.go their generators, explore_store_test.go the store, explore_copy_test.go
// the local copy, explore_checks_test.go the invariants, explore_ends_test.go how each story ends
// if no fault happens any more, explore_state_test.go the states, and explore_atlas_test.go the
// search.

// tick is the unit of the layout, of the clocks' steps and of the windows.
const tick = 20 * time.Second

// scope says what may happen in the stories.
type scope struct {
	name      string
	workers   int   // worker IDs
	seqBits   uint8 // of the clock sequence
	processes int   // that ask for a worker ID; two are up at once
	readers   int   // processes that read the watermark
	held      bool  // the first process has a worker ID when the story begins
	ahead     int   // by how many ticks the clock of the first process is ahead then
	clockless bool  // the store has no clock
	copies    bool  // the processes have one owner, and one local copy
	silence   bool  // requests for the entry "silence" are not made at once (calm)
	window    int   // in ticks; 0 is 1
	exact     bool  // states that differ are never taken for the same (reduced)
	unordered bool  // steps that no other process notices come at any time (mayMove), and no request is made at once (calm)
	ticks     int
	releases  int
	ids       int // that a process issues

	faults  int // of all kinds in one story, and of each kind:
	crashes int
	pauses  int // before a read
	delays  int // answers that come in a later tick
	fails   int // requests that fail; if they are writes, they may be made later all the same
	sets    int // steps of a clock, each by so many ticks:
	by      int
	back    bool // none forward
	losses  int  // of the entries
	heals   bool // after the last tick, time passes until no window under a lost record is open
	garbles int  // entries that can no longer be read
	outages int  // of the store
	removes int  // how often the local copy, or the record in it, is removed,
	olders  int  // and how often the local copy is put back as it was when the story began
	every   int  // of so many new states, one is gone on from without faults (world.ends); 0: none is
}

// healed returns how many ticks after a loss no window under a lost record is open any more.
func (s *scope) healed() int { return int((protocol.Healing(tick) + tick - 1) / tick) }

// span returns how many ticks a window has.
func (s *scope) span() int { return max(1, s.window) }

// more allows so many faults more, of each kind that the scope has.
func (s *scope) more(n int) {
	s.faults += n
	for _, most := range []*int{&s.crashes, &s.pauses, &s.delays, &s.fails, &s.sets, &s.losses, &s.garbles, &s.outages, &s.removes, &s.olders} {
		if *most > 0 {
			*most += n
		}
	}
}

// layout of the IDs.
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
	{name: "everything", workers: 2, seqBits: 1, processes: 2, held: true, ticks: 2, faults: 1, crashes: 1, pauses: 1, delays: 1, fails: 1, sets: 1, by: 2, losses: 1},
	{name: "ahead", workers: 1, processes: 1, readers: 1, held: true, ahead: 2, ticks: 2, ids: 1, faults: 1, sets: 1, by: 3},
	{name: "race", workers: 1, processes: 2, ticks: 1, faults: 1, crashes: 1, pauses: 1, fails: 1},
	{name: "hold", workers: 1, processes: 2, held: true, ticks: 3, faults: 1, crashes: 1, fails: 1},
	{name: "answers", workers: 1, processes: 2, held: true, ticks: 3, faults: 1, pauses: 1, delays: 1},
	{name: "release", workers: 1, processes: 2, held: true, ticks: 2, ids: 1, releases: 1, faults: 1, fails: 1},
	{name: "clocks", workers: 1, processes: 2, held: true, ticks: 3, faults: 2, sets: 2, by: 2},
	{name: "behind", workers: 1, processes: 2, held: true, ticks: 2, ids: 1, faults: 1, sets: 1, by: 1},
	{name: "replacement", workers: 2, seqBits: 1, processes: 2, held: true, ticks: 4},
	{name: "sequences", workers: 1, seqBits: 1, processes: 2, held: true, ticks: 1, ids: 2, releases: 1, faults: 1, sets: 1, by: 1},
	{name: "losses", workers: 1, processes: 2, held: true, ticks: 1, faults: 2, losses: 1, pauses: 1, heals: true},
	{name: "watermark", workers: 1, processes: 1, readers: 1, held: true, ticks: 2, ids: 1},
	{name: "newcomer", workers: 1, processes: 1, readers: 1, ticks: 2, ids: 1, faults: 1, sets: 1, by: 1},
	{name: "bump", workers: 1, seqBits: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 2, faults: 1, sets: 1, by: 1},
	{name: "overdue", workers: 1, processes: 1, readers: 1, held: true, ahead: -1, ticks: 2, ids: 1},
	{name: "undo", workers: 1, processes: 3, held: true, ticks: 1, ids: 1, releases: 1, faults: 1, sets: 1, by: 2},
	{name: "marks", workers: 1, processes: 3, held: true, ahead: 1, ticks: 2, faults: 2, losses: 1, crashes: 1},
	{name: "unreadable", workers: 2, processes: 2, held: true, ticks: 1, faults: 1, garbles: 1, every: 4},
	{name: "alive", workers: 1, processes: 2, held: true, ahead: -1, window: 2, ticks: 2, faults: 1, losses: 1},
	{name: "again", workers: 1, processes: 2, held: true, ticks: 3, ids: 1, releases: 1},
	{name: "sequence", workers: 1, seqBits: 1, processes: 1, held: true, ticks: 3, ids: 4, faults: 2, sets: 2, by: 1, back: true},
	{name: "readers", workers: 1, processes: 2, readers: 2, held: true, ids: 1, faults: 1, sets: 1, by: 1},
	{name: "clockless", workers: 1, processes: 2, held: true, clockless: true, ticks: 3, faults: 1, crashes: 1, fails: 1},
	{name: "silence", workers: 1, processes: 2, held: true, clockless: true, silence: true, ticks: 3, faults: 1, crashes: 1},
	{name: "copy", workers: 1, processes: 2, held: true, clockless: true, copies: true, ticks: 2, ids: 1, faults: 2, outages: 1, crashes: 1},
	{name: "older", workers: 1, processes: 2, held: true, clockless: true, copies: true, ticks: 2, ids: 1, faults: 2, crashes: 1, olders: 1},
	{name: "removed", workers: 2, processes: 1, held: true, clockless: true, copies: true, ticks: 3, ids: 1, faults: 2, outages: 1, removes: 1},
	{name: "gone", workers: 2, processes: 2, held: true, clockless: true, copies: true, ticks: 1, ids: 1, faults: 2, outages: 1, removes: 1},
	{name: "floor", workers: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 1, faults: 1, sets: 1, by: 1},
}

var (
	one        = flag.String("scope", "", "the scope of TestEveryInterleaving; empty: all")
	listScopes = flag.Bool("scopes", false, "TestEveryInterleaving only lists the scopes")
	moreTicks  = flag.Int("more-ticks", 0, "by how many ticks TestEveryInterleaving enlarges each scope; it may be negative")
	moreFaults = flag.Int("more-faults", 0, "by how many faults, of each kind that a scope has, TestEveryInterleaving enlarges it")
)

// goneOn is how many new states there are for each that TestEveryInterleaving goes on from without
// faults. All that can happen is still told, and it takes a fifth longer.
const goneOn = 64

// oneStepAtATime skips a test without goroutines, if the race detector would only slow it down
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
		s.ticks += *moreTicks
		s.more(*moreFaults)
		s.every = cmp.Or(s.every, goneOn)
		t.Run(s.name, func(t *testing.T) {
			begun := time.Now()
			limit := depth.Of(300, 3000)
			if *one != "" {
				limit = math.MaxInt
			}
			a := s.explore(true, limit)
			if a.broken == "" {
				t.Logf("%s: %d states, %d steps, %d continued, %.1f s", s.name, len(a.seen), a.steps, a.continued, time.Since(begun).Seconds())
				return
			}
			states := len(a.seen)
			if s.every = 0; !a.ended {
				if short := s.explore(false, 2*states); short.broken != "" {
					a = short
				}
			}
			t.Fatalf("a story of %d steps, after %d states:\n%s\nBROKEN: %s", len(a.story), states, strings.Join(a.words(), "\n"), a.broken)
		})
	}
}
