package follow

import (
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Stats contains statistics of a [Reader].
type Stats struct {
	Spans uint64 // spans that Next and Read returned
	Rows  uint64 // rows of these spans; 0 without Options.Table

	// Stalls is the number of waits for the watermark, writers or a replica, and Failures the
	// number of failures of the database or the store. Retries count only if the cause changes.
	Stalls, Failures uint64

	// Lag is the age of the oldest unread row or, until the reader has looked for one, of the last
	// row that it returned. It is 0 if all rows are read, without Options.Table, and until this
	// process has read the watermark.
	Lag time.Duration

	// Waits is the reason why the last try found no span although there may be rows, or nil.
	Waits error
	Since time.Time // when Waits last became non-nil; zero if it is nil

	// Mark is the watermark as the readers of the fence in this process last read it, or zero. If
	// rows wait for longer than renewals explain, HeldBy is the holder that keeps the watermark
	// back (see [lease.Watermark]).
	Mark lease.Mark
}

// Stats returns the reader's statistics. It sends no request, and does not wait for a call of Next
// or Read.
func (r *Reader) Stats() Stats {
	m := *r.reading.mark.Load()
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

// counts is the part of a Reader's Stats that its tries update.
type counts struct {
	mu     sync.Mutex
	stats  Stats
	oldest snowflake.ID // the row whose age is the lag, or 0
	rows   int          // the number of rows in the last span found
	last   snowflake.ID // the last of these rows
}

// found records the rows of the span that a try found.
func (c *counts) found(n int, last snowflake.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows, c.last = n, last
}

// waits records the first row that the reader has not returned.
func (c *counts) waits(first snowflake.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.oldest = first
}

// fail records a try without success. stalls says that the error is a stall, and isNew that the
// previous try did not end for the same reason.
func (c *counts) fail(err error, stalls, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stats.Waits = err; c.stats.Since.IsZero() {
		c.stats.Since = time.Now()
	}
	switch {
	case isNew && stalls:
		c.stats.Stalls++
	case isNew:
		c.stats.Failures++
	}
}

// succeed records a try that found s, which is empty if there is no row to read.
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
