package k8slease

import (
	"context"
	"time"
)

// Clock is an estimate of a server's clock, which the clients of a test can share.
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

// Ask makes a request, so that the clock sees the time in the response.
func (s *Store) Ask() error {
	_, err := s.get(context.Background(), "ask")
	return err
}

// SetClock gives a store the clock of other stores.
func (s *Store) SetClock(c *Clock) error {
	s.clock = c
	return s.connect()
}

// SetLimit sets how many bytes of history a worker ID may have.
func (s *Store) SetLimit(bytes int) { s.limit = bytes }

// SetPage sets how many objects the API server returns at a time.
func (s *Store) SetPage(n int64) { s.page = n }

// MaxHistory is how many bytes of history a worker ID may have.
const MaxHistory = maxHistory

// InClusterWith is InCluster with a pod's config and namespace file.
var InClusterWith = inCluster
