package etcdlease

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// MaxHistory is how many holdings of a worker ID a store keeps.
const MaxHistory = maxHistory

// SetNow gives the client another clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// SetKeep sets how many holdings of a worker ID are kept.
func (s *Store) SetKeep(most int) { s.keep = most }

// HoldingKey returns the key of a holding.
func (s *Store) HoldingKey(h lease.Holding) string { return s.holding(h.Worker, h) }
