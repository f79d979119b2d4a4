package snowflake

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// takeAt takes IDs as a call does if the clock is at tick now.
func (s *sequence) takeAt(now, n int64) run { return s.take(s.next(now, now), n, 0, now) }

// IDs are taken in order, also from ticks that have not begun.
func TestSequenceTakesAhead(t *testing.T) {
	s := newSequence(small, 0, 1)
	for _, want := range []run{
		{n: 3, tick: 7}, {n: 1, tick: 7}, {n: 3, tick: 8}, {n: 1, tick: 8}, {n: 3, tick: 9},
	} {
		got := s.takeAt(7, 3)
		assert.Equal(t, []int64{want.n, want.tick}, []int64{got.n, got.tick})
	}
	assert.EqualValues(t, 20, s.takeAt(20, 1).tick, "the clock has passed the IDs that are left")
}

// IDs that were put back come next, lowest first, until a greater ID was returned.
func TestSequencePutsBack(t *testing.T) {
	s := newSequence(small, 0, 1)
	var taken []run
	for range 8 {
		r := s.takeAt(7, 1)
		s.waiting().held += r.n
		taken = append(taken, r)
	}
	for _, k := range []int{6, 1, 4} {
		s.putBack(taken[k])
	}
	assert.EqualValues(t, 0, s.issued())
	assert.Equal(t, taken[1].first, s.takeAt(7, 1).first)
	assert.EqualValues(t, 1, s.issued(), "what is taken at once counts")
	s.serve(taken[5])
	assert.Equal(t, taken[6].first, s.takeAt(7, 1).first, "the lower one is lost")
	s.putBack(taken[0])
	assert.EqualValues(t, 9, s.takeAt(7, 1).tick, "it is less than an ID that was returned")
}

// A call that takes IDs of a later tick and puts them back has changed nothing: if the clock goes back, the IDs of the
// earlier tick come next.
func TestSequenceKeepsWhatWasPutBackInAnEarlierTick(t *testing.T) {
	s := newSequence(small, 0, 1)
	hold := func(r run) run { s.waiting().hold(r.tick, r.n); return r }
	a, b := hold(s.takeAt(7, 4)), hold(s.takeAt(7, 4))
	s.putBack(a)
	s.putBack(b)
	late := hold(s.takeAt(8, 1))
	assert.Equal(t, b.first, late.first)
	s.putBack(late)
	assert.Equal(t, a.first, s.takeAt(7, 1).first)
}

// After a change of the era, IDs that are put back are lost: they belong to another
// order.
func TestSequenceForgetsWhatWasPutBackInAnotherEra(t *testing.T) {
	s := newSequence(small, 0, 1)
	a, b := s.takeAt(7, 4), s.takeAt(7, 2)
	s.waiting().held = a.n + b.n
	s.putBack(b)
	s.newEra()
	s.putBack(a)
	assert.Equal(t, run{}, s.slots.lowest(0))
}
