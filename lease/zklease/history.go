package zklease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

const (
	// maxHistory is how many holdings of a worker ID are kept, whatever their age. The list
	// of their names has 150 kB. ZooKeeper's tools read 1 MiB.
	maxHistory = 2000

	// maxDrops is how many holdings one transaction drops, each with 120 B.
	maxDrops = 500
)

// The name of a holding's znode has all that trimming needs: when the holding began, its
// clock sequence, a hash of its token, and when it ended.

const stamp = "20060102T150405.000000000"

// identity returns the beginning of a holding's name. No two holdings have the same.
func identity(h lease.Holding) string {
	token := fnv.New64a()
	token.Write([]byte(h.Token))
	return fmt.Sprintf("%s-%d-%016x-", h.From.UTC().Format(stamp), h.ClockSeq, token.Sum64())
}

func name(h lease.Holding) string { return identity(h) + h.To.UTC().Format(stamp) }

// ended returns when the holding with this name ended.
func ended(name string) (time.Time, error) {
	return time.Parse(stamp, name[strings.LastIndexByte(name, '-')+1:])
}

// History returns the earlier holders of a worker ID.
func (s *Store) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := s.tick(ctx); err != nil { // so that this session sees what other processes saved
		return nil, err
	}
	dir := s.historyOf(worker)
	names, _, err := s.holdings(ctx, worker)
	if err != nil {
		return nil, err
	}
	return many(ctx, names, func(ctx context.Context, name string) (h lease.Holding, err error) {
		p := dir + "/" + name
		data, _, err := s.get(ctx, p)
		if err != nil {
			return h, err
		}
		if err := json.Unmarshal(data, &h); err != nil {
			return h, &Error{p, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)}
		}
		return h, nil
	})
}

// holdings returns the names in a worker ID's history, the oldest first, and whether the
// history's znode exists.
func (s *Store) holdings(ctx context.Context, worker int) (names []string, there bool, err error) {
	names, err = s.children(ctx, s.historyOf(worker))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, false, nil
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names, true, err
}

// SaveEnding is Save and, in the same transaction, adds ended to the history of r.Worker, and
// drops from this history each holding that ended before forget. If the history has more than
// 2,000 holdings, it also drops the oldest, and makes r.Forgotten later.
//
// It first lists the history. The history of a worker ID changes only with its record, so the
// list is still right if the transaction finds the version that r replaces.
func (s *Store) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	if err := s.check(ctx, r); err != nil {
		return r, err
	}
	data, err := json.Marshal(ended)
	if err != nil {
		return r, &Error{s.historyOf(r.Worker), err}
	}
	for {
		names, there, err := s.holdings(ctx, r.Worker)
		if err != nil {
			return r, err
		}
		ops, dropped := s.trim(r.Worker, names, ended, data, forget)
		if !there {
			ops = append([]any{&zk.CreateRequest{Path: s.historyOf(r.Worker), Acl: s.acl}}, ops...)
		}
		r := r
		if dropped.After(r.Forgotten) {
			r.Forgotten = dropped
		}
		saved, err := s.save(ctx, r, ops)
		if !errors.Is(err, errStale) {
			return saved, err
		}
		// The list came from a server that is not up to date. After a write of this session
		// it is.
		if _, err := s.tick(ctx); err != nil {
			return r, err
		}
	}
}

// trim returns the operations that add h to a history with these names, and that drop the
// holdings that ended before forget or are too many. dropped is the latest end of the
// holdings that were too many.
func (s *Store) trim(worker int, names []string, h lease.Holding, data []byte, forget time.Time) (ops []any, dropped time.Time) {
	dir := s.historyOf(worker) + "/"
	drop := func(name string) { ops = append(ops, &zk.DeleteRequest{Path: dir + name, Version: -1}) }
	var kept []string
	for _, name := range names {
		to, err := ended(name)
		switch {
		case strings.HasPrefix(name, identity(h)):
			drop(name)
		case err == nil && to.Before(forget):
			if len(ops) < maxDrops {
				drop(name)
			}
		default:
			kept = append(kept, name)
		}
	}
	over := len(kept) - s.keep
	if !h.To.Before(forget) {
		over++
	}
	for _, name := range kept[:min(max(over, 0), len(kept))] {
		if len(ops) == maxDrops {
			break
		}
		drop(name)
		if to, err := ended(name); err == nil && to.After(dropped) {
			dropped = to
		}
	}
	if !h.To.Before(forget) {
		ops = append(ops, &zk.CreateRequest{Path: dir + name(h), Data: data, Acl: s.acl})
	}
	return ops, dropped
}
