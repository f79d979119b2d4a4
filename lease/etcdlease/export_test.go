package etcdlease

import "time"

// MaxHistory is how many holdings of a worker ID a store keeps.
const MaxHistory = maxHistory

// SetNow gives the client another clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// SetKeep sets how many holdings of a worker ID are kept.
func (s *Store) SetKeep(most int) { s.keep = most }
