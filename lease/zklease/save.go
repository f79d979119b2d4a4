package zklease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Save writes r in place of the version before it. If the holder's ephemeral znode exists and
// is this store's, Save writes the record alone, otherwise both in one transaction.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := s.check(ctx, r); err != nil {
		return r, err
	}
	return s.save(ctx, r, nil)
}

// check refuses records that cannot be saved, and waits for a session.
func (s *Store) check(ctx context.Context, r lease.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := s.Locate(r.Worker)
	switch {
	case r.Version == 0 || r.Version > math.MaxInt32+1: // version -1 in a request would mean any
		return conflict(p, r)
	case r.Version > math.MaxInt32:
		return &Error{p, fmt.Errorf("it cannot be saved more than %d times", math.MaxInt32)}
	}
	if err := s.connected(ctx); err != nil {
		return &Error{p, away(err)}
	}
	return nil
}

// save writes the record, and changes the history in the same transaction.
func (s *Store) save(ctx context.Context, r lease.Record, history []any) (lease.Record, error) {
	p := s.Locate(r.Worker)
	data, err := encode(r)
	if err != nil {
		return r, &Error{p, err}
	}
	i := instance{r.Token, s.conn.SessionID()}
	var stat *zk.Stat
	if r.Version > 1 && r.State == lease.Held && len(history) == 0 && s.isMade(r.Worker, i) {
		stat, err = s.set(ctx, p, data, int32(r.Version-1))
		switch {
		case errors.Is(err, zk.ErrBadVersion):
			err = conflict(p, r)
		case errors.Is(err, zk.ErrNoNode):
			err = s.noRecord(ctx, r)
		}
	} else {
		stat, err = s.replace(ctx, r, data, i, history)
	}
	if err != nil {
		return r, err
	}
	r.Renewed = time.UnixMilli(stat.Mtime).UTC()
	return r, nil
}

func conflict(p string, r lease.Record) error {
	return &Error{p, fmt.Errorf("%w: it does not have version %d", lease.ErrConflict, int64(r.Version)-1)}
}

// noRecord returns why r finds no record to replace: it was removed, or never made.
func (s *Store) noRecord(ctx context.Context, r lease.Record) error {
	p := s.Locate(r.Worker)
	used, err := s.exists(ctx, s.usedOf(r.Worker))
	if err == nil && used {
		err = gone(p)
	}
	if err == nil {
		err = s.intact(ctx)
	}
	if err == nil {
		err = conflict(p, r)
	}
	return err
}

// errStale is returned by replace if the history has changed since it was read.
var errStale = errors.New("zklease: the history has changed")

// replace writes the record, makes or removes the ephemeral znode, and changes the history.
// It guesses whether there is an ephemeral znode, perhaps of an earlier holder, and tries
// again if the guess was wrong.
func (s *Store) replace(ctx context.Context, r lease.Record, data []byte, i instance, history []any) (*zk.Stat, error) {
	who, err := json.Marshal(struct {
		Token string `json:"token"`
		Owner string `json:"owner"`
		Host  string `json:"host"`
		PID   int    `json:"pid"`
	}{r.Token, r.Owner, r.Host, r.PID})
	if err != nil {
		return nil, err
	}
	record, ephemeral, used := s.Locate(r.Worker), s.instanceOf(r.Worker), s.usedOf(r.Worker)
	there := s.forget(r.Worker)
	for {
		var ops []any
		if r.Version == 1 {
			// The record is created empty and then set, so that its data version is 1, and
			// the answer has its mtime.
			ops = append(ops, &zk.CreateRequest{Path: record, Acl: s.acl})
		}
		set := len(ops)
		ops = append(ops, &zk.SetDataRequest{Path: record, Data: data, Version: int32(r.Version - 1)})
		if r.Version == 1 {
			ops = append(ops, &zk.CreateRequest{Path: used, Acl: s.acl})
		}
		if there {
			ops = append(ops, &zk.DeleteRequest{Path: ephemeral, Version: -1})
		}
		if r.State == lease.Held {
			ops = append(ops, &zk.CreateRequest{Path: ephemeral, Data: who, Acl: s.acl, Flags: zk.FlagEphemeral})
		}
		ops = append(ops, history...)
		answers, err := call(ctx, s, record, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
		if err == nil {
			if r.State == lease.Held {
				s.remember(r.Worker, i)
			}
			return answers[set].Stat, nil
		}

		failed := 0
		for failed < len(answers) && answers[failed].Error == nil {
			failed++
		}
		if failed >= len(answers) {
			return nil, err // of the whole transaction
		}
		at, creates := target(ops[failed])
		why := answers[failed].Error
		exists, missing := why == zk.ErrNodeExists, why == zk.ErrNoNode
		switch {
		case creates && missing && !strings.HasPrefix(at, s.historyOf(r.Worker)+"/"):
			return nil, notWhole(parent(at))
		case at == record && missing:
			return nil, s.noRecord(ctx, r)
		case at == record && (exists || why == zk.ErrBadVersion):
			return nil, conflict(record, r)
		case at == used && exists:
			return nil, gone(record)
		case at == ephemeral && (exists || missing):
			there = !there
		case exists || missing:
			return nil, errStale
		default:
			return nil, &Error{at, why}
		}
	}
}

// target returns the znode of a part of a transaction, and whether the part creates it.
func target(op any) (path string, creates bool) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		return op.Path, true
	case *zk.SetDataRequest:
		return op.Path, false
	case *zk.DeleteRequest:
		return op.Path, false
	}
	return "", false
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func (s *Store) isMade(worker int, i instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[worker] == i
}

func (s *Store) remember(worker int, i instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[worker] = i
}

// forget reports whether this store made the ephemeral znode of a worker ID, and forgets
// it.
func (s *Store) forget(worker int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.made[worker]
	delete(s.made, worker)
	return ok
}
