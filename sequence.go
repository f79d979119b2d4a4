package snowflake

import (
	"cmp"
	"slices"
)

// sequence has the IDs that are next. IDs are taken in order, also from ticks that have not begun: a
// call that takes such IDs waits for their tick. A sequence reads no clock, takes no lock and does
// not wait.
type sequence struct {
	mask   uint64 // the sequence's bits of an ID; constant
	nextID ID     // the next ID of tick
	left   int64  // the number of IDs left in tick

	tick    int64  // the tick that IDs are taken from
	reached int64  // the tick of the last ID that a call returned; the clock must have reached it
	fixed   ID     // the clock sequence, datacenter and worker bits
	trail   *trail // earlier ticks; nil if nothing can go back
	slots   *slots // IDs that waiting calls have taken and put back; nil before the first wait
	taken   uint64 // the number of IDs taken and not put back, and of those left in tick
	layout  Layout
	era     uint32 // calls that wait with IDs of an earlier era must take other IDs
	random  bool   // each tick begins with a random ID
	late    bool   // IDs of tick were taken before it began, or tick follows such a tick
}

// A run is a number of consecutive IDs of one tick. The zero run has no IDs.
type run struct {
	first ID
	n     int64
	tick  int64
	era   uint32 // the sequence's era when they were taken
}

// place is the source of the next IDs.
type place struct {
	tick, left int64
	kind       placeKind
	late       bool // the tick follows a tick that calls waited for: see sequence.late
}

type placeKind uint8

const (
	forward  placeKind = iota // the tick that IDs are taken from, or a later tick
	leftover                  // IDs that another call put back
	rewound                   // an earlier tick
	bumped                    // another clock sequence
	slot                      // IDs that the call has, and for whose tick it waits
)

// slots has the IDs of the calls that wait for their tick.
type slots struct {
	total  int64           // the number of these IDs
	ticks  map[int64]int64 // their number by tick, without those of an earlier era
	back   []run           // IDs that were put back, the greatest run first; all are greater than served
	served ID              // the greatest ID that may have been returned
}

func newSequence(l Layout, datacenter, worker int) sequence {
	return sequence{tick: -1, reached: -1, mask: uint64(l.sequences()-1) << l.sequenceShift(), fixed: l.fixed(0, datacenter, worker), layout: l}
}

// next returns the place of the next IDs if the clock is at tick now. The place is not in a tick
// before earliest, which is before now if calls that waited for a tick may have woken late. If no
// tick has IDs left, the place is the layout's last tick.
func (s *sequence) next(now, earliest int64) place {
	if k := s.slots.lowest(earliest); k >= 0 {
		b := s.slots.back[k]
		return place{tick: b.tick, left: b.n, kind: leftover}
	}
	if now <= s.tick || s.late && earliest <= s.tick {
		p := s.from(s.tick, s.layout.maxTick())
		p.late = s.late
		return p
	}
	return s.from(now, s.layout.maxTick())
}

// from returns the first tick, from tick up to the tick called to, that has IDs left, or to if none
// has.
func (s *sequence) from(tick, to int64) place {
	for ; ; tick++ {
		left := s.leftIn(tick)
		if left > 0 || tick >= to {
			return place{tick: tick, left: left}
		}
	}
}

// leftIn returns the number of IDs that a tick has left under the current clock sequence.
func (s *sequence) leftIn(tick int64) int64 {
	if tick == s.tick {
		return s.left
	}
	if s.trail != nil {
		if left, ok := s.trail.ring.left(tick); ok {
			return left
		}
	}
	return s.layout.sequences()
}

// lowest returns the index in back of the lowest IDs that are in tick or a later tick, or -1.
func (w *slots) lowest(tick int64) int {
	if w == nil {
		return -1
	}
	k := len(w.back) - 1
	for k >= 0 && w.back[k].tick < tick {
		k--
	}
	return k
}

// enters reports whether the sequence begins another tick or clock sequence when IDs are taken from
// p.
func (s *sequence) enters(p place) bool {
	return p.kind == bumped || p.kind != leftover && p.tick != s.tick
}

// take takes up to n IDs from p. If it enters a tick, it skips the tick's first skip IDs. limit is
// the last tick that may be stamped now.
func (s *sequence) take(p place, n, skip, limit int64) run {
	if p.kind == leftover {
		return s.takeBack(p.tick, n)
	}
	if s.enters(p) {
		s.leave()
		if p.kind != forward {
			s.trail.last = max(s.trail.last, s.reached)
			s.newEra()
		}
		if p.kind == bumped {
			s.setClockSeq(s.trail.bump(p.tick))
		}
		s.open(p.tick, p.left-skip)
	}
	s.late = p.late || p.tick > limit
	return s.draw(n)
}

// draw takes up to n IDs of tick.
func (s *sequence) draw(n int64) run {
	r := run{first: s.nextID, n: min(n, s.left), tick: s.tick, era: s.era}
	s.nextID += ID(r.n) * s.stride()
	s.left -= r.n
	return r
}

// stride returns the difference between neighbouring IDs of a tick.
func (s *sequence) stride() ID { return 1 << s.layout.sequenceShift() }

// takeBack takes up to n of the lowest IDs of tick that were put back. IDs of earlier ticks stay:
// if this call returns no ID after all, and the clock goes back, another call may get them.
func (s *sequence) takeBack(tick, n int64) run {
	w := s.slots
	k := w.lowest(tick)
	lowest := &w.back[k]
	r := *lowest
	r.n = min(n, r.n)
	lowest.first += ID(r.n) * s.stride()
	lowest.n -= r.n
	if lowest.n == 0 {
		w.back = slices.Delete(w.back, k, k+1)
	}
	s.taken += uint64(r.n)
	return r
}

// waiting returns s.slots, and makes it if it is nil.
func (s *sequence) waiting() *slots {
	if s.slots == nil {
		s.slots = &slots{ticks: map[int64]int64{}}
	}
	return s.slots
}

// count notes that a call waits with n IDs of tick or, if n is negative, no longer waits.
func (w *slots) count(tick, n int64) {
	w.total += n
	if w.ticks[tick] += n; w.ticks[tick] == 0 {
		delete(w.ticks, tick)
	}
}

// highest returns the last tick that calls wait for, or -1.
func (w *slots) highest() int64 {
	last := int64(-1)
	if w != nil {
		for tick := range w.ticks {
			last = max(last, tick)
		}
	}
	return last
}

// closeBefore closes the ticks before earliest, except to calls that wait for them. It returns the
// first tick that may still be stamped. The sequence must have no trail.
func (s *sequence) closeBefore(earliest int64) int64 {
	if s.tick < earliest-1 {
		s.leave()
		s.open(earliest-1, 0)
		s.reached, s.late = earliest-1, false // the clock has reached this tick
	}
	first := s.tick
	if s.left == 0 {
		first++
	}
	if w := s.slots; w != nil {
		for k := len(w.back); k > 0 && w.back[k-1].tick < earliest; k-- {
			w.back = w.back[:k-1]
		}
		if k := w.lowest(earliest); k >= 0 {
			first = min(first, w.back[k].tick)
		}
		for tick := range w.ticks {
			first = min(first, tick)
		}
	}
	return first
}

// putBack takes IDs back from a call that waited for their tick. The next call gets them, unless a
// greater ID was returned in between.
func (s *sequence) putBack(r run) {
	w := s.slots
	s.taken -= uint64(r.n)
	if r.era != s.era {
		w.total -= r.n
		return
	}
	w.count(r.tick, -r.n)
	if r.first <= w.served {
		return
	}
	i, _ := slices.BinarySearchFunc(w.back, r, func(a, b run) int { return cmp.Compare(b.first, a.first) })
	w.back = slices.Insert(w.back, i, r)
}

// returned notes that a call returns r, which is from a place of this kind.
func (s *sequence) returned(r run, kind placeKind) {
	if kind == slot || kind == leftover {
		s.reached = max(s.reached, r.tick)
	} else {
		s.reached = r.tick
	}
	s.close(r.first + ID(r.n-1)*s.stride())
}

// close notes that IDs up to id may have been returned. Lower IDs that were put back are lost.
func (s *sequence) close(id ID) {
	w := s.slots
	if w == nil || id <= w.served {
		return
	}
	w.served = id
	for k := len(w.back); k > 0 && w.back[k-1].first <= id; k-- {
		w.back = w.back[:k-1]
	}
}

// newEra makes all calls that wait for their tick take other IDs.
func (s *sequence) newEra() {
	s.era++
	if s.slots != nil {
		s.slots.back, s.slots.served = nil, -1
		clear(s.slots.ticks)
	}
}

// leave closes the tick that IDs came from.
func (s *sequence) leave() {
	s.taken -= uint64(s.left)
	if s.trail != nil {
		s.trail.ring.record(s.tick, s.left)
	}
}

// open makes tick the tick that IDs come from, with its last left IDs. They count as taken until the
// tick is closed.
func (s *sequence) open(tick, left int64) {
	l := s.layout
	s.tick, s.left = tick, left
	s.taken += uint64(left)
	s.nextID = ID(tick<<l.timeShift()|(l.sequences()-left)<<l.sequenceShift()) | s.fixed
}

// restart closes tick and all ticks before it, and continues after them with other fields. reached
// is the tick that the clock must have reached.
func (s *sequence) restart(tick int64, fixed ID, reached int64) {
	s.leave()
	if s.trail != nil {
		s.trail.ring.restart(tick)
	}
	s.fixed = fixed
	s.open(tick, 0)
	s.reached, s.late = reached, false
	if s.slots != nil {
		s.slots.back = nil
	}
}

// resume begins in the tick of after, under its clock sequence, with the first ID above after.
func (s *sequence) resume(after ID) {
	seq := int64(s.layout.Decode(after).ClockSeq)
	s.setClockSeq(seq)
	if s.trail != nil {
		s.trail.seqs.first = seq
	}
	s.skipTo(after)
}

// skipTo makes all later IDs greater than after, except those that waiting calls have. If after is
// ahead, the next ID is the first one above it or, if its tick has none left, one of the next tick.
// It reports whether after is ahead.
func (s *sequence) skipTo(after ID) (ahead bool) {
	l := s.layout
	tick := int64(after) >> l.timeShift()
	left := l.sequences()
	if first := ID(tick<<l.timeShift()) | s.fixed; after >= first {
		left -= min(int64((after-first)/s.stride())+1, left)
	}
	left = min(left, s.leftIn(tick))
	ahead = tick > s.tick || tick == s.tick && left < s.left
	if s.trail != nil {
		s.trail.close(tick, tick < s.tick)
	}
	s.close(after)
	if ahead {
		s.leave()
		s.late = s.late && tick == s.tick
		s.open(tick, left)
		s.reached = max(s.reached, tick)
	}
	return ahead
}

// setClockSeq makes seq the clock sequence of later IDs.
func (s *sequence) setClockSeq(seq int64) {
	l := s.layout
	shift := l.clockSeqShift()
	s.fixed = s.fixed&^ID(lowBits(l.ClockSeqBits)<<shift) | ID(seq<<shift)
}

// canRewind reports whether the sequence remembers tick and all later ticks, and whether a tick from
// tick up to near has IDs left.
func (s *sequence) canRewind(tick, near int64) bool {
	if s.trail == nil || tick >= s.reached || !s.trail.ring.knows(tick, s.tick) {
		return false
	}
	return s.from(tick, min(near, s.layout.maxTick())).left > 0
}

// issued returns the number of IDs that calls have returned.
func (s *sequence) issued() uint64 {
	n := s.taken - uint64(s.left)
	if s.slots != nil {
		n -= uint64(s.slots.total)
	}
	return n
}
