package k8slease

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/lease"
)

const recordAnnotation = "snowflake-ids/record"

// page is how many objects the API server returns at a time.
const page = 500

// list returns the store's objects as they were at one moment, which is not before the call.
// An empty resourceVersion asks for that; any other would let the server answer from a
// cache that is behind.
func (s *Store) list(ctx context.Context, more string) ([]coordination.Lease, error) {
	var all []coordination.Lease
	opts := meta.ListOptions{LabelSelector: storeLabel + "=" + s.prefix + more, Limit: page}
	for {
		got, err := s.leases.List(ctx, opts)
		if apierrors.IsResourceExpired(err) && opts.Continue != "" { // it took too long
			all, opts.Continue = nil, ""
			continue
		}
		if err != nil {
			return nil, s.explain(ctx, s.prefix+"-*", err)
		}
		all = append(all, got.Items...)
		if opts.Continue = got.Continue; opts.Continue == "" {
			return all, nil
		}
	}
}

// Load lists the records.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, err
	}
	all, err := s.list(ctx, ","+kindLabel+"!="+kindHistory)
	if err != nil {
		return lease.Snapshot{}, err
	}
	var snap lease.Snapshot
	created := false
	for _, o := range all {
		if s.isStore(&o) {
			created = true
			continue
		}
		r, err := s.decode(&o)
		if err != nil {
			return lease.Snapshot{}, err
		}
		snap.Records = append(snap.Records, r)
	}
	if !created {
		return lease.Snapshot{}, s.wiped(s.prefix, ", so the store was wiped or never created")
	}
	snap.Now, snap.OwnClock = s.clock.now()
	return snap, nil
}

// LoadWorker gets one record.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, err
	}
	var snap lease.Snapshot
	o, err := s.get(ctx, s.recordName(worker))
	switch {
	case err != nil:
		return snap, err
	case o == nil:
		err = s.mayBeUnused(ctx, worker)
	default:
		snap.Records = make([]lease.Record, 1)
		snap.Records[0], err = s.decode(o)
	}
	if err != nil {
		return lease.Snapshot{}, err
	}
	snap.Now, snap.OwnClock = s.clock.now()
	return snap, nil
}

// mayBeUnused is nil if a record that is not there can never have been there.
func (s *Store) mayBeUnused(ctx context.Context, worker int) error {
	history, err := s.get(ctx, s.historyName(worker))
	if err != nil {
		return err
	}
	if history != nil {
		if _, err := s.decodeHistory(history, worker); err != nil {
			return err
		}
		if history.Annotations[usedAnnotation] != "" {
			return s.wiped(s.recordName(worker), ", and "+s.place(s.historyName(worker))+" says that it was used")
		}
	}
	return s.exists(ctx)
}

// exists is nil if the store is there.
func (s *Store) exists(ctx context.Context) error {
	o, err := s.get(ctx, s.prefix)
	switch {
	case err != nil:
		return err
	case o == nil:
		return s.wiped(s.prefix, ", so the store was wiped or never created")
	case !s.isStore(o):
		return s.notOurs(s.prefix)
	}
	return nil
}

func (s *Store) decode(o *coordination.Lease) (r lease.Record, err error) {
	text, ok := o.Annotations[recordAnnotation]
	if !ok {
		return r, s.notOurs(o.Name)
	}
	if err = json.Unmarshal([]byte(text), &r); err == nil {
		err = r.Validate()
	}
	if err == nil && o.Name != s.recordName(r.Worker) {
		err = fmt.Errorf("it is of worker %d", r.Worker)
	}
	if err != nil {
		return r, fmt.Errorf("k8slease: %s: %w: annotation %s: %w", s.place(o.Name), lease.ErrBadRecord, recordAnnotation, err)
	}
	return r, nil
}

func (s *Store) workerOf(text string) (int, bool) {
	worker, err := strconv.Atoi(text)
	return worker, err == nil && worker >= 0
}
