package zklease

import "context"

// UpToDate calls read as Get and List do.
func (s *Store) UpToDate(ctx context.Context, read func()) error {
	_, err := s.upToDate(ctx, func() ([]znode, error) { read(); return nil, nil })
	return err
}
