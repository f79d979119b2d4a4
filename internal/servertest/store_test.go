//go:build unix

package servertest

import (
	"context"
	"testing"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// leaderless stores an entry, and then says once that it is away.
type leaderless struct {
	lease.Store
	told bool
}

func (s *leaderless) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	e, err := s.Store.Put(ctx, key, old, value)
	if !s.told {
		s.told = true
		return lease.Entry{}, lease.ErrAway
	}
	return e, err
}

func TestPutTakesUpWhatItStoredWhileTheStoreWasAway(t *testing.T) {
	files := lease.File(t.TempDir())
	e := Put(t, &leaderless{Store: files}, "key", "", "value")
	Put(t, files, "key", e.Version, "value")
}
