//go:build go1.25

package fleet

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
)

// machine has the clocks of a host, and what became of them. Its times are
// durations: virtual time since the run began, the monotonic clock, and the
// wall clock's distance from Scenario.Start.
type machine struct {
	start time.Time // the wall clock's reading when the run began, were it right
	begun time.Time // virtual time then

	generation atomic.Uint64 // another one in each copy of the machine

	mu       sync.Mutex
	segments []segment
}

// segment is a time in which both clocks ran evenly.
type segment struct {
	at, wall, mono time.Duration
	rate           int64 // of the wall clock, in parts per million
	asleep         bool  // the monotonic clock stands still
}

func newMachine(start, begun time.Time, offset time.Duration, drift int64) *machine {
	at := time.Since(begun)
	return &machine{start: start, begun: begun, segments: []segment{{at: at, wall: at + offset, mono: at, rate: million + drift}}}
}

const million = 1_000_000

// isEven reports whether both clocks run as they should, but for a quartz's error.
func (s segment) isEven() bool { return max(s.rate-million, million-s.rate) <= maxDrift && !s.asleep }

const maxDrift = 200 // parts per million

func scale(d time.Duration, ppm int64) time.Duration {
	return d/million*time.Duration(ppm) + d%million*time.Duration(ppm)/million
}

// to returns the segment as it is at a time after its beginning.
func (s segment) to(at time.Duration) segment {
	d := at - s.at
	s.at, s.wall = at, s.wall+scale(d, s.rate)
	if !s.asleep {
		s.mono += d
	}
	return s
}

func (m *machine) now() segment {
	return m.segments[len(m.segments)-1].to(time.Since(m.begun))
}

// Now is Wall, for snowflake.Clock.
func (m *machine) Now() time.Time { return m.Wall() }

// Wall returns the wall clock's reading.
func (m *machine) Wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start.Add(m.now().wall)
}

// Mono returns the monotonic clock's reading.
func (m *machine) Mono() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now().mono
}

// change begins a new segment.
func (m *machine) change(f func(*segment)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.now()
	f(&s)
	m.segments = append(m.segments, s)
}

// right sets the wall clock, except for an offset, and lets both clocks run.
func (m *machine) right(offset time.Duration) {
	m.change(func(s *segment) { s.wall, s.rate, s.asleep = s.at+offset, million, false })
}

// offsets returns the least and the largest distance between the wall clock and the
// monotonic clock in the last d of monotonic time.
func (m *machine) offsets(d time.Duration) (lo, hi time.Duration) {
	return m.distances(d, func(s segment) time.Duration { return s.mono })
}

// least returns the least distance of the wall clock from virtual time in the last d.
func (m *machine) least(d time.Duration) time.Duration {
	lo, _ := m.distances(d, func(s segment) time.Duration { return s.at })
	return lo
}

// distances returns the least and the largest distance of the wall clock from another clock in the
// last d of that.
func (m *machine) distances(d time.Duration, other func(segment) time.Duration) (lo, hi time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.now()
	lo = end.wall - other(end)
	hi, from := lo, other(end)-d
	for i := len(m.segments) - 1; i >= 0 && other(end) >= from; i-- {
		s := m.segments[i]
		for _, x := range []segment{s.to(s.at + max(0, from-other(s))), s.to(end.at)} {
			lo, hi = min(lo, x.wall-other(x)), max(hi, x.wall-other(x))
		}
		end = s
	}
	return lo, hi
}

// isEven reports whether both clocks run as they should.
func (m *machine) isEven() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now().isEven()
}

// changes counts the steps, stops and changes of rate.
func (m *machine) changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.segments)
}

// clone returns a machine with the same clocks, whose history parts from here on.
func (m *machine) clone() *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &machine{start: m.start, begun: m.begun, segments: append([]segment(nil), m.segments...)}
}

// vmClock returns the path at which a process finds the machine's generation.
func (m *machine) vmClock() string {
	path := fmt.Sprintf("%p", m)
	seam.Generations.Store(path, &m.generation)
	return path
}
