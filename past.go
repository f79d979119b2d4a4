package snowflake

// past is what a generator remembers of the ticks that it has left: for the
// clock sequences the last tick of each, for rewinding how much of each recent
// tick is used. Where neither is asked for, there is none.
type past struct {
	// Of the current clock sequence:
	top   int64  // the last tick stamped
	floor int64  // ticks up to this one are closed
	ring  []mark // the ticks from top-RewindTicks on, by tick modulo its length

	// Of all of them, in the order of their first use:
	last    []int64 // the last tick stamped; out of date for the current one
	current int
	size    int64 // how many there are
	first   int64 // the value of the first one used; the others count on from it
	virgin  int64 // ticks up to this one are closed for those not used yet
}

// mark is a tick and how many IDs it has left.
type mark struct{ tick, left int64 }

func newPast(l Layout, rewindTicks int) *past {
	p := &past{top: -1, floor: -1, virgin: -1, size: lowBits(l.ClockSeqBits) + 1, last: []int64{-1}}
	if rewindTicks > 0 {
		p.ring = make([]mark, rewindTicks+1)
		p.forget()
	}
	return p
}

// forget empties the ring.
func (p *past) forget() {
	for i := range p.ring {
		p.ring[i] = mark{tick: -1}
	}
}

// restart begins behind tick, with nothing of what was before.
func (p *past) restart(tick int64) {
	p.top, p.floor = tick, tick
	p.forget()
}

// resume begins in tick under clock sequence first.
func (p *past) resume(tick, first int64) {
	p.top, p.floor = tick, tick-1
	p.virgin, p.first = tick, first
}

// record notes how many IDs the tick that is being left has left.
func (p *past) record(tick, left int64) {
	p.top = max(p.top, tick)
	if len(p.ring) > 0 && tick > p.floor {
		p.ring[tick%int64(len(p.ring))] = mark{tick, left}
	}
}

// knows reports whether ticks from tick on can be looked up with left, when
// head is the tick that has not been recorded yet.
func (p *past) knows(tick, head int64) bool {
	return tick > p.floor && tick > max(p.top, head)-int64(len(p.ring))
}

// left returns how many IDs a tick that was stamped or closed has left. It is
// false for a tick that was never stamped.
func (p *past) left(tick int64) (int64, bool) {
	if tick <= p.floor {
		return 0, true
	}
	if len(p.ring) > 0 {
		if m := p.ring[tick%int64(len(p.ring))]; m.tick == tick {
			return m.left, true
		}
	}
	return 0, false
}

// behind returns the place in last of the clock sequence to take when the clock
// is at tick: of those whose own last tick is behind it, the one least so, so
// that the others are kept for longer steps; one that was never used is a place
// past the end. It is -1 when there is none.
func (p *past) behind(tick int64) int {
	best := -1
	for i, last := range p.last {
		if i != p.current && last < tick && (best < 0 || last > p.last[best]) {
			best = i
		}
	}
	if best < 0 && int64(len(p.last)) < p.size && p.virgin < tick {
		return len(p.last)
	}
	return best
}

// bump goes over to the clock sequence that behind chooses, and returns it. The
// tick of the one before has been recorded.
func (p *past) bump(tick int64) int64 {
	to := p.behind(tick)
	if to == len(p.last) {
		p.last = append(p.last, p.virgin)
	}
	p.last[p.current] = p.top
	p.current = to
	p.restart(p.last[to])
	return (p.first + int64(to)) % p.size
}
