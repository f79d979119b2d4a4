package snowflake

// past is what a generator remembers of the ticks that it has left. It is nil if the generator can
// neither rewind nor change its clock sequence by itself.
type past struct {
	ring ring
	seqs clockSeqs
	// last is the last tick under the current clock sequence of which a call had returned an ID
	// when the generator last went back.
	last int64
}

func newPast(l Layout, rewindTicks int) *past {
	return &past{ring: newRing(rewindTicks), seqs: newClockSeqs(l), last: -1}
}

// close lets nothing go back to a tick before this one, nor to this one unless IDs come from it
// under the current clock sequence. If it was left, nothing goes back to it.
func (p *past) close(tick int64, wasLeft bool) {
	closed := tick - 1
	if wasLeft {
		closed = tick
	}
	p.ring.closed = max(p.ring.closed, closed)
	p.last = max(p.last, tick)
	s := &p.seqs
	s.initial = max(s.initial, tick)
	for i, last := range s.last {
		s.last[i] = max(last, tick)
	}
}

// bump changes to the clock sequence that choose finds, and returns its value. p.last must be up to
// date.
func (p *past) bump(tick int64) int64 {
	s, to := &p.seqs, p.seqs.choose(tick)
	if to == len(s.last) {
		s.last = append(s.last, s.initial)
	}
	s.last[s.current] = p.last
	s.current, p.last = to, s.last[to]
	p.ring.restart(p.last)
	return (s.first + int64(to)) % s.size
}

// ring remembers how many IDs the recent ticks of the current clock sequence have left, so that the
// generator can rewind to them.
type ring struct {
	top    int64  // the last tick stamped
	closed int64  // ticks up to this one are closed
	marks  []mark // the ticks from top-RewindTicks on, by tick modulo their number
}

// mark is a tick and how many IDs it has left.
type mark struct{ tick, left int64 }

func newRing(rewindTicks int) ring {
	r := ring{}
	if rewindTicks > 0 {
		r.marks = make([]mark, rewindTicks+1)
	}
	r.restart(-1)
	return r
}

// restart closes the ticks up to tick, and forgets what was used.
func (r *ring) restart(tick int64) {
	r.top, r.closed = tick, tick
	for i := range r.marks {
		r.marks[i] = mark{tick: -1}
	}
}

// record notes how many IDs tick has left when IDs begin to come from another tick.
func (r *ring) record(tick, left int64) {
	r.top = max(r.top, tick)
	if len(r.marks) > 0 && tick > r.closed {
		r.marks[tick%int64(len(r.marks))] = mark{tick, left}
	}
}

// knows reports whether the ring remembers all ticks from tick up to head, the tick that is not
// recorded yet.
func (r *ring) knows(tick, head int64) bool {
	return tick > r.closed && tick > max(r.top, head)-int64(len(r.marks))
}

// left returns how many IDs a tick has left. It returns false if the tick was neither stamped nor
// closed.
func (r *ring) left(tick int64) (int64, bool) {
	if tick <= r.closed {
		return 0, true
	}
	if len(r.marks) > 0 {
		if m := r.marks[tick%int64(len(r.marks))]; m.tick == tick {
			return m.left, true
		}
	}
	return 0, false
}

// clockSeqs remembers the last tick of each clock sequence, in the order of their first use.
type clockSeqs struct {
	last    []int64 // the last tick stamped; out of date for the current one
	current int
	size    int64 // how many clock sequences there are
	first   int64 // the value of the first clock sequence used; the others are the values after it
	initial int64 // the last tick of each clock sequence that was not used yet
}

func newClockSeqs(l Layout) clockSeqs {
	return clockSeqs{initial: -1, size: lowBits(l.ClockSeqBits) + 1, last: []int64{-1}}
}

const noClockSeq = -1

// choose returns the index in last of the clock sequence to take when the clock is at tick. Of the
// sequences whose last tick is before the clock's, it takes the one with the latest, so that the
// others are kept for longer steps back. If there is none, it returns len(last), for a sequence
// that was never used or, if all were used, noClockSeq.
func (s *clockSeqs) choose(tick int64) int {
	best := noClockSeq
	for i, last := range s.last {
		if i != s.current && last < tick && (best == noClockSeq || last > s.last[best]) {
			best = i
		}
	}
	if best == noClockSeq && int64(len(s.last)) < s.size && s.initial < tick {
		return len(s.last)
	}
	return best
}
