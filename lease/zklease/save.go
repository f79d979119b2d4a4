package zklease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Save writes the record alone where the ephemeral znode is there and ours, and
// both of them in one transaction otherwise.
func (s *store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	p := s.Locate(r.Worker)
	// In a request, version -1 means any.
	if r.Version == 0 || r.Version > math.MaxInt32+1 {
		return r, conflict(p, r)
	}
	if r.Version > math.MaxInt32 {
		return r, &Error{p, fmt.Errorf("it can be saved %d times", math.MaxInt32)}
	}
	data, err := encode(r)
	if err != nil {
		return r, &Error{p, err}
	}
	if err := s.connected(ctx); err != nil {
		return r, &Error{p, err}
	}
	var stat *zk.Stat
	if i := (instance{r.Token, s.conn.SessionID()}); r.Version > 1 && r.State == lease.Held && s.isMade(r.Worker, i) {
		stat, err = s.set(ctx, p, data, int32(r.Version-1))
		if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
			err = conflict(p, r)
		}
	} else {
		stat, err = s.replace(ctx, r, data, i)
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

// replace writes the record, and makes or removes the ephemeral znode. Whether
// there is one, perhaps of an earlier holder, it guesses and finds out.
func (s *store) replace(ctx context.Context, r lease.Record, data []byte, i instance) (*zk.Stat, error) {
	who, err := json.Marshal(struct {
		Token string `json:"token"`
		Owner string `json:"owner"`
		Host  string `json:"host"`
		PID   int    `json:"pid"`
	}{r.Token, r.Owner, r.Host, r.PID})
	if err != nil {
		return nil, err
	}
	record, ephemeral := s.Locate(r.Worker), s.instanceOf(r.Worker)
	there := s.forget(r.Worker)
	for {
		var ops []any
		var paths []string
		add := func(path string, op any) { ops, paths = append(ops, op), append(paths, path) }
		if r.Version == 1 {
			// Created empty and then set, so that its data version is 1, and the
			// answer has its mtime.
			add(record, &zk.CreateRequest{Path: record, Acl: s.acl})
		}
		add(record, &zk.SetDataRequest{Path: record, Data: data, Version: int32(r.Version - 1)})
		set := len(ops) - 1
		if there {
			add(ephemeral, &zk.DeleteRequest{Path: ephemeral, Version: -1})
		}
		if r.State == lease.Held {
			add(ephemeral, &zk.CreateRequest{Path: ephemeral, Data: who, Acl: s.acl, Flags: zk.FlagEphemeral})
		}
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
			return nil, err // all of it
		}
		_, creates := ops[failed].(*zk.CreateRequest)
		switch err := answers[failed].Error; {
		case creates && err == zk.ErrNoNode: // its parent
			if err := s.makeTree(ctx); err != nil {
				return nil, err
			}
		case failed <= set && (err == zk.ErrNodeExists || err == zk.ErrNoNode || err == zk.ErrBadVersion):
			return nil, conflict(record, r)
		case failed > set && (err == zk.ErrNodeExists || err == zk.ErrNoNode):
			there = !there
		default:
			return nil, &Error{paths[failed], err}
		}
	}
}

func (s *store) isMade(worker int, i instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[worker] == i
}

func (s *store) remember(worker int, i instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[worker] = i
}

// forget reports whether the ephemeral znode of a worker ID was made by us.
func (s *store) forget(worker int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.made[worker]
	delete(s.made, worker)
	return ok
}
