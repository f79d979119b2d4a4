package k8slease

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Save replaces the record. A renewal is one update.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	return s.save(ctx, r, nil)
}

func (s *Store) save(ctx context.Context, r lease.Record, e *ending) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if r.Worker < 0 {
		return r, fmt.Errorf("k8slease: %w: worker %d cannot be stored", lease.ErrBadRecord, r.Worker)
	}
	if o := s.take(r.Worker); o != nil {
		if old, err := s.decode(o); err == nil && old.Version == r.Version-1 {
			saved, err := s.replace(ctx, o, old, r, e)
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return saved, err
			}
		}
	}
	// Somebody else may have changed the object without changing the record, as kubectl label does.
	for ctx.Err() == nil {
		o, err := s.get(ctx, s.recordName(r.Worker))
		if err != nil {
			return r, err
		}
		if o == nil {
			return s.first(ctx, r, e)
		}
		old, err := s.decode(o)
		if err != nil {
			return r, err
		}
		if old.Version != r.Version-1 || r.Version == 0 {
			return r, fmt.Errorf("k8slease: %s: %w: it has version %d", s.place(o.Name), lease.ErrConflict, old.Version)
		}
		saved, err := s.replace(ctx, o, old, r, e)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return saved, err
		}
	}
	return r, ctx.Err()
}

// first saves the first record of a worker ID. Afterwards it looks whether the store is still
// there: if it was wiped meanwhile, another process may have the worker ID, too.
func (s *Store) first(ctx context.Context, r lease.Record, e *ending) (lease.Record, error) {
	if err := s.mayBeUnused(ctx, r.Worker); err != nil {
		return r, err
	}
	name := s.recordName(r.Worker)
	if r.Version != 1 {
		return r, fmt.Errorf("k8slease: %w: there is no %s", lease.ErrConflict, s.place(name))
	}
	o := s.object(name, kindRecord)
	r, err := s.write(o, lease.Record{}, r, e)
	if err != nil {
		return r, err
	}
	made, err := s.leases.Create(ctx, o, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if there, gerr := s.get(ctx, name); gerr == nil && there != nil {
			if _, derr := s.decode(there); derr != nil {
				return r, derr // it is somebody else's
			}
		}
		return r, fmt.Errorf("k8slease: %s: %w: it was made meanwhile", s.place(name), lease.ErrConflict)
	}
	if err != nil {
		return r, s.explain(ctx, name, err)
	}
	if err := s.markUsed(ctx, r.Worker); err != nil {
		return r, err
	}
	if err := s.exists(ctx); err != nil {
		return r, err
	}
	meta.SetMetaDataAnnotation(&made.ObjectMeta, markedAnnotation, "true") // which the next save stores
	s.keep(r.Worker, made)
	return r, nil
}

// replace saves r over o. If the error is a conflict, o is not what is stored any more.
func (s *Store) replace(ctx context.Context, o *coordination.Lease, old, r lease.Record, e *ending) (lease.Record, error) {
	o = o.DeepCopy()
	if o.Annotations[markedAnnotation] == "" { // whoever made the record did not get that far
		if err := s.markUsed(ctx, r.Worker); err != nil {
			return r, err
		}
		o.Annotations[markedAnnotation] = "true"
	}
	if e != nil {
		if err := s.makeRoom(ctx, o, old, e); err != nil {
			return r, err
		}
	}
	saved, err := s.write(o, old, r, e)
	if err != nil {
		return r, err
	}
	made, err := s.leases.Update(ctx, o, meta.UpdateOptions{})
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return r, err
		}
		return r, s.explain(ctx, o.Name, err)
	}
	s.keep(r.Worker, made)
	return saved, nil
}

// write puts r into an object that has old, and returns r as it will be stored.
func (s *Store) write(o *coordination.Lease, old, r lease.Record, e *ending) (lease.Record, error) {
	now, _ := s.clock.now()
	r.Renewed = now.UTC()
	if e != nil {
		if err := s.keepEnding(o, &r, e); err != nil {
			return r, err
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return r, fmt.Errorf("k8slease: %w", err)
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[recordAnnotation] = string(text)
	describe(o, old, r)
	return r, nil
}

// describe fills in what kubectl shows. Nothing reads it.
func describe(o *coordination.Lease, old, r lease.Record) {
	spec := &o.Spec
	renewed := meta.NewMicroTime(r.Renewed)
	seconds := int32(min(math.MaxInt32, 1+(r.Window-1)/time.Second))
	spec.RenewTime, spec.LeaseDurationSeconds, spec.HolderIdentity = &renewed, &seconds, nil
	if r.State == lease.Held && r.Owner != "" {
		spec.HolderIdentity = &r.Owner
	}
	if old.Token != r.Token {
		spec.AcquireTime = &renewed
		turns := int32(0)
		if spec.LeaseTransitions != nil && *spec.LeaseTransitions < math.MaxInt32 {
			turns = *spec.LeaseTransitions + 1
		}
		spec.LeaseTransitions = &turns
	}
}

// keep remembers what was saved, for the next renewal.
func (s *Store) keep(worker int, o *coordination.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved[worker] = o
}

// take returns what was saved last, and forgets it until it is saved again.
func (s *Store) take(worker int) *coordination.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.saved[worker]
	delete(s.saved, worker)
	return o
}
