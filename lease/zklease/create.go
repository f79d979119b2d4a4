package zklease

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/internal/newstore"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Create makes the tree if it does not exist, and repairs a store that was wiped. Call it
// when a fleet is set up, or at each start: if the store is whole, Create does nothing.
//
// If the tree does not exist, it may have been removed, and its holders may issue IDs until
// their windows end. So Create waits for two windows before it makes or repairs a store.
// window is the longest lease.Options.Window of the fleet, or 0 for the default of 3 s. For
// a store that is known to be new, a nanosecond is enough. If window is negative or too
// long, the error matches [lease.ErrInvalidOptions].
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	look := func(ctx context.Context) (string, error) { return newstore.Missing(s.survey(ctx)) }
	if err := ctx.Err(); err != nil {
		return err
	}
	err := newstore.Create(ctx, window, look, s.repair)
	if known := new(Error); err != nil && !errors.As(err, &known) {
		err = &Error{s.clock(), err}
	}
	return err
}

// tree returns the znodes that have the others below them. The clock comes last: if it
// exists, all of them have existed.
func (s *Store) tree() []string {
	return []string{s.servers(), s.instances(), s.used(), s.history(), s.clock()}
}

// survey returns the worker IDs that have lost their records, or lease.ErrWiped if the tree
// is not whole.
func (s *Store) survey(ctx context.Context) (lost []int, err error) {
	for _, p := range s.tree() {
		there, err := s.exists(ctx, p)
		if err == nil && !there {
			err = notWhole(p)
		}
		if err != nil {
			return nil, err
		}
	}
	if lost, err = s.lost(ctx); err != nil {
		return nil, err
	}
	return lost, s.intact(ctx)
}

// intact returns lease.ErrWiped if a znode under used was ever removed, other than by a
// repair.
func (s *Store) intact(ctx context.Context) error {
	removed, known, _, err := s.removed(ctx)
	if err == nil && removed != known {
		err = &Error{s.used(), fmt.Errorf("%w: %d znodes were removed", lease.ErrWiped, removed-known)}
	}
	return err
}

// removed returns how many znodes under used were ever removed, and how many of these
// removals a repair has noted in the data of their parent. Only a repair removes them
// rightly. So if somebody removes all of them, the tree still does not look new.
func (s *Store) removed(ctx context.Context) (n, known int, version int32, err error) {
	data, stat, err := s.get(ctx, s.used())
	if errors.Is(err, zk.ErrNoNode) {
		err = notWhole(s.used())
	}
	if err != nil {
		return 0, 0, 0, err
	}
	if len(data) > 0 {
		if known, err = strconv.Atoi(string(data)); err != nil {
			return 0, 0, 0, &Error{s.used(), fmt.Errorf("%w: %w", lease.ErrBadRecord, err)}
		}
	}
	// Cversion counts how many were made and how many were removed.
	return int(stat.Cversion-stat.NumChildren) / 2, known, stat.Version, nil
}

func (s *Store) lost(ctx context.Context) (lost []int, err error) {
	used, err := s.list(ctx, s.used()) // first, as in readAll
	if err != nil {
		return nil, err
	}
	workers, err := s.list(ctx, s.servers())
	there := map[int]bool{}
	for _, w := range workers {
		there[w] = true
	}
	for _, w := range used {
		if !there[w] {
			lost = append(lost, w)
		}
	}
	return lost, err
}

// repair makes a whole store of the znodes that are left.
func (s *Store) repair(ctx context.Context) error {
	tree := s.tree()
	for _, p := range tree[:len(tree)-1] {
		if err := s.make(ctx, p); err != nil {
			return err
		}
	}
	lost, err := s.lost(ctx)
	for _, w := range lost {
		if err == nil {
			err = s.unuse(ctx, w)
		}
	}
	if err != nil {
		return err
	}
	removed, known, version, err := s.removed(ctx)
	if err == nil && removed != known {
		_, err = s.set(ctx, s.used(), []byte(strconv.Itoa(removed)), version)
	}
	if err != nil && !errors.Is(err, zk.ErrBadVersion) { // another process was quicker
		return err
	}
	return s.make(ctx, s.clock())
}

// unuse makes a worker ID count as never used, unless it has a record.
func (s *Store) unuse(ctx context.Context, worker int) error {
	record, used := s.Locate(worker), s.usedOf(worker)
	_, err := call(ctx, s, used, func() ([]zk.MultiResponse, error) {
		return s.conn.Multi(
			&zk.CreateRequest{Path: record, Acl: s.acl}, // fails if a record exists
			&zk.DeleteRequest{Path: record, Version: 0},
			&zk.DeleteRequest{Path: used, Version: -1})
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) { // another process was quicker
		return nil
	}
	return err
}

// make makes a znode, with its parents, if it does not exist.
func (s *Store) make(ctx context.Context, p string) error {
	_, err := call(ctx, s, p, func() (string, error) { return s.conn.Create(p, nil, 0, s.acl) })
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode) && path.Dir(p) != "/":
		if err := s.make(ctx, path.Dir(p)); err != nil {
			return err
		}
		return s.make(ctx, p)
	}
	return err
}
