package snowflake

// trail is a generator's memory of the ticks before the current one. It is nil if the generator can
// neither rewind nor change its clock sequence by itself.
type trail struct {
	ring ring
	seqs clockSeqs
	// last is the last tick of which a call returned an ID under the current clock sequence, as of the
	// last step back.
	last int64
}

func newTrail(l Layout, rewindTicks int) *trail {
	return &trail{ring: newRing(rewindTicks), seqs: newClockSeqs(l), last: -1}
}

// close closes the ticks before tick to every step back, and tick too, except under the current clock
// sequence. If wasLeft, it closes tick there as well.
func (t *trail) close(tick int64, wasLeft bool) {
	closed := tick - 1
	if wasLeft {
		closed = tick
	}
	t.ring.closed = max(t.ring.closed, closed)
	t.last = max(t.last, tick)
	s := &t.seqs
	s.initial = max(s.initial, tick)
	for i, last := range s.last {
		s.last[i] = max(last, tick)
	}
}

// bump changes to the clock sequence that choose finds, and returns its value. t.last must be up to
// date.
func (t *trail) bump(tick int64) int64 {
	s, to := &t.seqs, t.seqs.choose(tick)
	if to == len(s.last) {
		s.last = append(s.last, s.initial)
	}
	s.last[s.current] = t.last
	s.current, t.last = to, s.last[to]
	t.ring.restart(t.last)
	return (s.first + int64(to)) % s.size
}

// ring has the recent ticks of the current clock sequence, to which the generator can rewind.
type ring struct {
	top    int64       // the last tick stamped
	closed int64       // the last tick that is closed, as are all before it
	recent []remainder // the ticks from top-RewindTicks on, by tick modulo their number
}

// remainder is a tick and the number of IDs that it has left.
type remainder struct{ tick, left int64 }

func newRing(rewindTicks int) ring {
	r := ring{}
	if rewindTicks > 0 {
		r.recent = make([]remainder, rewindTicks+1)
	}
	r.restart(-1)
	return r
}

// restart closes the ticks up to tick, and forgets the others.
func (r *ring) restart(tick int64) {
	r.top, r.closed = tick, tick
	for i := range r.recent {
		r.recent[i] = remainder{tick: -1}
	}
}

// record notes the number of IDs left in tick when the generator moves to another tick.
func (r *ring) record(tick, left int64) {
	r.top = max(r.top, tick)
	if len(r.recent) > 0 && tick > r.closed {
		r.recent[tick%int64(len(r.recent))] = remainder{tick, left}
	}
}

// knows reports whether the ring remembers all ticks from tick up to head, the tick that is not
// recorded yet.
func (r *ring) knows(tick, head int64) bool {
	return tick > r.closed && tick > max(r.top, head)-int64(len(r.recent))
}

// left returns the number of IDs that a tick has left. It returns false if the tick was neither
// stamped nor closed.
func (r *ring) left(tick int64) (int64, bool) {
	if tick <= r.closed {
		return 0, true
	}
	if len(r.recent) > 0 {
		if m := r.recent[tick%int64(len(r.recent))]; m.tick == tick {
			return m.left, true
		}
	}
	return 0, false
}

// clockSeqs has the used clock sequences, in the order of their first use.
type clockSeqs struct {
	last    []int64 // the last tick stamped under each; out of date for the current one
	current int     // an index of last
	size    int64   // the number of clock sequences that the layout has
	first   int64   // the value of the first clock sequence used; the others are the values after it
	initial int64   // the last tick of each unused clock sequence
}

func newClockSeqs(l Layout) clockSeqs {
	return clockSeqs{initial: -1, size: lowBits(l.ClockSeqBits) + 1, last: []int64{-1}}
}

const noClockSeq = -1

// choose returns the index in last of the clock sequence to take when the clock is at tick. Of the
// sequences whose last tick is before that, it takes the one with the latest, which leaves the
// others for longer steps back. If there is none, it returns len(last), for an unused sequence, or
// noClockSeq if all are used.
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
