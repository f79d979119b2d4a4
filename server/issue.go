package server

import (
	"context"

	"github.com/seed-5394e6b1/snowflake"
)

// next issues an ID.
func (s *Server) next(ctx context.Context) (snowflake.ID, error) {
	i, err := s.issues()
	if err != nil {
		return 0, err
	}
	if err := of(ctx).quota.spend(1); err != nil {
		return 0, err
	}
	return i.gen.NextIDContext(ctx)
}

// issue issues n IDs, or returns an error.
func (s *Server) issue(ctx context.Context, n int64) ([]snowflake.ID, error) {
	i, err := s.issues()
	if err != nil {
		return nil, err
	}
	if err := s.checkCount(ctx, "n", n); err != nil {
		return nil, err
	}
	c := of(ctx)
	if err := c.room.take(weight(n)); err != nil {
		return nil, err
	}
	if err := c.quota.spend(int(n)); err != nil {
		return nil, err
	}
	ids := make([]snowflake.ID, n)
	_, err = i.gen.Fill(ctx, ids)
	return ids, err
}

// checkCount returns an error if n IDs are more than a call, or the call's token, may ask for.
func (s *Server) checkCount(ctx context.Context, field string, n int64) error {
	if most := int64(of(ctx).quota.largest()); n > most && n <= int64(s.o.MaxIDs) {
		return tooMany(field, most, "%d is over the %d that the token's quota allows at once: "+
			"ask for fewer, or give the token another burst", n, most)
	}
	return inRange(field, n, int64(s.o.MaxIDs))
}

// inRange returns an error if n, the value of a field, is not in the range 1 to most.
func inRange(field string, n, most int64) error {
	switch {
	case n > most:
		return tooMany(field, most, "%d is not 1 to %d", n, most)
	case n < 1:
		return wrong(field, "%d is not 1 to %d", n, most)
	}
	return nil
}

// numbers returns the IDs as the protocol's integers.
func numbers(ids []snowflake.ID) []int64 {
	to := make([]int64, len(ids))
	for i, id := range ids {
		to[i] = int64(id)
	}
	return to
}
