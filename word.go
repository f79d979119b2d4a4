package snowflake

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// word is the next ID of the open tick. A tick is open if a call that had the lock took an ID of it,
// and a built-in clock still reads it. Calls take the IDs of an open tick without the lock: they
// look at the word, read the clock, and replace the word by a later ID. All IDs from the word to the
// end of the tick are free; the sequence has none left while the tick is open.
//
// Each function that locks the generator seals the word first, and opens it again at the end. A call
// may stop between its look and its swap for any time. If IDs were taken by then, or the tick is no
// longer open, the word differs, and the swap fails. If the word is the same, its ID is free, is the
// next in order, and lies in what the lease grants at the moment of the swap. If the generator left
// the tick and rewound to it in between, the clock has read the tick again. So a call takes what it
// could take under the lock at the moment of the swap.
type word struct {
	next atomic.Uint64 // opened plus the ID, or sealed
	// until is the end of the open tick, in monotonic time, or noTick if no tick is open. It changes
	// only while the word is sealed.
	until atomic.Int64
}

// noTick is before every reading of the monotonic clock.
const noTick = math.MinInt64

const (
	sealed = 0 // so that a zero Generator issues nothing
	opened = 1 << 63
)

// lock locks g.mu and seals the word.
func (g *Generator) lock() {
	g.mu.Lock()
	g.seal()
}

// seal gives the word's IDs back to the sequence. g.mu must be held.
func (g *Generator) seal() {
	if g.next.Load() == sealed {
		return // it is opened only by unlock
	}
	if w := g.next.Swap(sealed); w != sealed {
		g.seq.nextID, g.seq.left = ID(w&^opened), g.seq.leftFrom(w)
	}
}

// unlock opens the word if a tick is open, and unlocks g.mu.
func (g *Generator) unlock() {
	if g.until.Load() != noTick && g.seq.left > 0 {
		g.next.Store(opened | uint64(g.seq.nextID))
		g.seq.left = 0
	}
	g.mu.Unlock()
}

// leftFrom returns the number of IDs of a tick from the ID of word w on.
func (s *sequence) leftFrom(w uint64) int64 {
	return int64(s.mask&^w>>s.layout.sequenceShift()) + 1
}

// after returns the word that follows w: sealed if w has the last ID of its tick.
func (s *sequence) after(w uint64) uint64 {
	if s.mask&^w == 0 {
		return sealed
	}
	return w + s.mask&-s.mask
}

// following returns the number of IDs, up to n, that a tick has from word w on, and the word that
// follows them.
func (s *sequence) following(w uint64, n int64) (int64, uint64) {
	if n == 1 {
		return 1, s.after(w)
	}
	if left := s.leftFrom(w); n >= left {
		return left, sealed
	}
	return n, w + uint64(n)*uint64(s.stride())
}

// sight is a call's view of the open tick before it takes an ID.
type sight struct {
	word uint64
	born uint64 // see generator.born
}

func (s sight) id() ID { return ID(s.word &^ opened) }

// sight reads the generation before the word: if the generator changes to a window of another
// generation afterwards, confirm notices that.
func (g *Generator) sight() (s sight) {
	s.born = g.born.Load()
	s.word = g.next.Load()
	return s
}

// inTime reads the clock, and reports whether the tick of the word is still open.
func (g *Generator) inTime() bool { return int64(g.wall.elapsed()) < g.until.Load() }

// claim takes the IDs from the word up to next, and reports whether the word had not changed.
func (g *Generator) claim(s sight, next uint64) bool { return g.next.CompareAndSwap(s.word, next) }

// inTick returns up to n IDs of the open tick. It returns none if no tick is open, or if each of its
// tries met another call's.
func (g *Generator) inTick(n int64) run {
	for range tries {
		s := g.sight()
		if s.word == sealed || !g.inTime() {
			break
		}
		got, next := g.seq.following(s.word, n)
		if !g.claim(s, next) {
			yield()
			continue
		}
		if !g.confirm(s, got) {
			break
		}
		return run{first: s.id(), n: got}
	}
	return run{}
}

// A call whose word was taken by another call lets other goroutines run, yields times or for
// maxYield, before its next try. With an immediate next try, the word's cache line would move
// between cores for each ID; with a pause, one core keeps it for many IDs.
const (
	tries    = 4
	yields   = 4
	maxYield = 50 * time.Microsecond
)

func yield() {
	start := monotonic()
	for range yields {
		runtime.Gosched()
		if monotonic()-start > maxYield {
			return
		}
	}
}
