package follow

import (
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Stats says how a [Reader] is doing.
type Stats struct {
	Spans uint64 // spans that Next and Read returned
	Rows  uint64 // rows of these spans; 0 without Options.Table

	// Stalls counts how often the reader began to wait for the watermark, writers or a replica, and
	// Failures how often the database or the store began to fail. A new cause counts anew.
	Stalls, Failures uint64

	// Lag is the age of the oldest row that is known to wait for the reader or, if none is, of the
	// last row that the reader returned, until it looks again and finds none. It is 0 if no row
	// waits, without Options.Table, and until this process has read the watermark.
	Lag time.Duration

	// Waits is why the last try found no span although rows may wait; nil if there is no reason.
	Waits error
	Since time.Time // when the tries began to end without success; zero if the last one succeeded

	// Mark is the watermark as this process's readers of the fence last read it, or zero if they
	// have not read it yet. While rows wait, HeldBy names the holder that keeps it back.
	Mark lease.Mark
}

// Stats returns how the reader is doing. It asks neither the database nor the store, and does not
// wait for a call of Next or Read.
func (r *Reader) Stats() Stats {
	m := r.Mark()
	c := &r.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Mark = m
	if c.oldest > 0 && m.Layout.Check(c.oldest) == nil {
		s.Lag = max(0, time.Since(m.Layout.Decode(c.oldest).Time))
	}
	return s
}

// counts is the part of a Reader's Stats that its tries count.
type counts struct {
	mu     sync.Mutex
	stats  Stats
	oldest snowflake.ID // the row whose age is the lag; 0 if none waits
	rows   int          // the rows of the span found last, and
	last   snowflake.ID // the last of them
}

// counted notes the rows of the span that a try has found.
func (c *counts) counted(n int, last snowflake.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows, c.last = n, last
}

// waits notes the first row that the reader has not returned.
func (c *counts) waits(first snowflake.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldest = first
}

// fail notes a try that found no span. begins is set if the try before did not fail for the same
// reason.
func (c *counts) fail(err error, stalls, begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stats.Waits = err; c.stats.Since.IsZero() {
		c.stats.Since = time.Now()
	}
	switch {
	case begins && stalls:
		c.stats.Stalls++
	case begins:
		c.stats.Failures++
	}
}

// succeed notes a try that found s, which has no IDs if no row waits.
func (c *counts) succeed(s Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Waits, c.stats.Since, c.oldest = nil, time.Time{}, 0
	if s.UpTo == s.After {
		return
	}
	c.stats.Spans++
	c.stats.Rows += uint64(c.rows)
	c.oldest, c.rows, c.last = c.last, 0, 0
}
