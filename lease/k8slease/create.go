package k8slease

import (
	"context"
	"errors"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/internal/newstore"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const createdAnnotation = "snowflake-ids/created"

// Create makes the store if it is not there, and repairs a store that was wiped. Call it when
// a fleet is set up, or when each pod starts: if the store is whole, Create does nothing.
//
// A store that is not there may have been wiped, and then there may be holders that go on
// until their windows end. So Create waits for two windows before it makes or repairs a
// store. Give it the longest lease.Options.Window of the fleet, or 0 for [DefaultWindow]. For a
// store that is known to be new, a nanosecond does. If the window is negative or too
// long, the error matches [lease.ErrInvalidOptions].
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	if window == 0 {
		window = DefaultWindow
	}
	whole := func(ctx context.Context) (bool, error) {
		lost, err := s.lost(ctx)
		if errors.Is(err, lease.ErrWiped) {
			return false, nil
		}
		return len(lost) == 0, err
	}
	return newstore.Create(ctx, window, whole, s.repair)
}

// lost returns the histories whose records are gone. If the store is not there, the error
// matches lease.ErrWiped.
func (s *Store) lost(ctx context.Context) (lost []coordination.Lease, err error) {
	all, err := s.list(ctx, "")
	if err != nil {
		return nil, err
	}
	has, created := map[string]bool{}, false
	for _, o := range all {
		has[o.Name] = true
		created = created || s.isStore(&o)
	}
	for _, o := range all {
		if worker, ok := s.workerOf(o.Annotations[workerAnnotation]); ok && o.Labels[kindLabel] == kindHistory &&
			o.Name == s.historyName(worker) && o.Annotations[usedAnnotation] != "" && !has[s.recordName(worker)] {
			lost = append(lost, o)
		}
	}
	if !created {
		return lost, s.wiped(s.prefix, ", so the store was wiped or never created")
	}
	return lost, nil
}

func (s *Store) isStore(o *coordination.Lease) bool {
	return o.Name == s.prefix && o.Annotations[createdAnnotation] != ""
}

// repair makes a store of what is there. The object that says so comes last.
func (s *Store) repair(ctx context.Context) error {
	lost, err := s.lost(ctx)
	if err != nil && !errors.Is(err, lease.ErrWiped) {
		return err
	}
	for _, o := range lost { // the worker ID may be used again; its history stays
		delete(o.Annotations, usedAnnotation)
		o.Annotations[upToAnnotation] = "0" // versions begin again
		if _, err := s.leases.Update(ctx, &o, meta.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return s.explain(ctx, o.Name, err)
		} // else another process repairs it
	}
	o := s.object(s.prefix, kindStore)
	o.Annotations[createdAnnotation] = time.Now().UTC().Format(time.RFC3339)
	_, err = s.leases.Create(ctx, o, meta.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return s.explain(ctx, o.Name, err)
	}
	there, err := s.get(ctx, s.prefix)
	switch {
	case err != nil:
		return err
	case there != nil && !s.isStore(there):
		return s.notOurs(s.prefix)
	}
	return nil
}
