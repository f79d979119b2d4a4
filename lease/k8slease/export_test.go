package k8slease

import (
	"context"
	"time"
)

// Clock is what the clients of a test know together of a server's clock.
type Clock = clock

var NewClock = newClock

func (c *clock) Observe(date, asked, came time.Time) { c.observe(date, asked, came) }

func (c *clock) Now() (time.Time, bool) { return c.now() }

// Off returns how far the clock may be off.
func (c *clock) Off() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return time.Hour
	}
	return (c.hi - c.lo) / 2
}

// Ask makes a request, for the time that comes with the answer.
func (s *Store) Ask() error {
	_, err := s.get(context.Background(), "ask")
	return err
}

// SetClock lets a store know what others know already.
func (s *Store) SetClock(c *Clock) error {
	s.clock = c
	return s.connect()
}

// SetLimit sets how many bytes of history a worker ID may have.
func (s *Store) SetLimit(bytes int) { s.limit = bytes }

// MaxHistory is how many bytes of history a worker ID may have.
const MaxHistory = maxHistory

// InClusterWith is InCluster with what a pod has.
var InClusterWith = inCluster
