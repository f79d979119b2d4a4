//go:build go1.25

package fleet

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
)

// machine has the clocks of a host, and their past readings.
type machine struct {
	start time.Time // a right wall clock's reading at the start of the run
	begun time.Time // virtual time at the start of the run

	generation atomic.Uint64 // differs in each copy of the machine

	mu       sync.Mutex
	segments []segment // the last one lasts
}

// segment is a span of time in which both clocks run evenly. at is its beginning, since the start
// of the run; wall, since Scenario.Start, and mono are the clocks' readings at its beginning.
type segment struct {
	at, wall, mono time.Duration
	rate           int64 // of the wall clock, in parts per million
	asleep         bool  // the monotonic clock is stopped
}

func newMachine(start, begun time.Time, offset time.Duration, drift int64) *machine {
	at := time.Since(begun)
	return &machine{start: start, begun: begun, segments: []segment{{at: at, wall: at + offset, mono: at, rate: million + drift}}}
}

const million = 1_000_000

const maxDrift = 200 // parts per million

func scale(d time.Duration, ppm int64) time.Duration {
	return d/million*time.Duration(ppm) + d%million*time.Duration(ppm)/million
}

// to returns the rest of the segment from a later time on.
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

// Now implements snowflake.Clock.
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

// right sets the wall clock to true time plus an offset, and lets both clocks run.
func (m *machine) right(offset time.Duration) {
	m.change(func(s *segment) { s.wall, s.rate, s.asleep = s.at+offset, million, false })
}

// offsets returns the smallest and largest difference between the wall clock and the monotonic
// clock during the last d of monotonic time.
func (m *machine) offsets(d time.Duration) (lo, hi time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.now()
	lo = end.wall - end.mono
	hi, from := lo, end.mono-d
	for i := len(m.segments) - 1; i >= 0 && end.mono >= from; i-- {
		s := m.segments[i]
		for _, x := range [2]segment{s.to(s.at + max(0, from-s.mono)), s.to(end.at)} {
			lo, hi = min(lo, x.wall-x.mono), max(hi, x.wall-x.mono)
		}
		end = s
	}
	return lo, hi
}

// changes returns the number of segments so far, which grows with each step, stop and change of
// rate.
func (m *machine) changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.segments)
}

// clone returns a copy of the machine. Later changes of one do not affect the other.
func (m *machine) clone() *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &machine{start: m.start, begun: m.begun, segments: append([]segment(nil), m.segments...)}
}

// vmClock returns the path at which processes open the machine's generation.
func (m *machine) vmClock() string {
	path := fmt.Sprintf("%p", m)
	seam.Generations.Store(path, &m.generation)
	return path
}
