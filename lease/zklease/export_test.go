package zklease

// MaxHistory is how many holdings of a worker ID a store keeps.
const MaxHistory = maxHistory

// SetKeep sets how many holdings of a worker ID are kept.
func (s *Store) SetKeep(most int) { s.keep = most }
