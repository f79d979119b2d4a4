package k8slease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/internal/newstore"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const createdAnnotation = "snowflake-ids/created"

// Create makes the store if it does not exist, and repairs a store that was wiped. Call it when
// you set up a fleet, or when each pod starts: if the store is whole, Create does nothing.
//
// A store that does not exist may have been wiped. Then its holders may issue IDs until their
// windows end. So Create waits for two windows before it makes or repairs a store. Pass the
// longest lease.Options.Window of the fleet, or 0 for [DefaultWindow]. If you know that the
// store is new, pass a nanosecond. If the window is negative or too long, the error matches
// [lease.ErrInvalidOptions]. If the namespace or the right to create is missing, or if another
// program's Lease has the name, Create returns the error before it waits.
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	if window == 0 {
		window = DefaultWindow
	}
	var is survey
	tried := false
	look := func(ctx context.Context) (missing string, err error) {
		is, err = s.survey(ctx)
		if errors.Is(err, lease.ErrWiped) && !tried {
			tried = true
			if err := s.try(ctx); err != nil {
				return "", err
			}
		}
		missing, err = newstore.Missing(is.lost, err)
		if err == nil && !is.created {
			missing += fmt.Sprint(" of ", is.there) // if one of them goes, too, its holder may have renewed until then
		}
		return missing, err
	}
	return newstore.Create(ctx, window, look, func(ctx context.Context) error { return s.repair(ctx, is.lost) })
}

// survey is what Create looks at.
type survey struct {
	lost    []int    // the worker IDs whose records are gone
	there   []string // the records and the histories that are marked as used
	created bool
}

// survey looks at the store. If it is not there, the error matches lease.ErrWiped.
func (s *Store) survey(ctx context.Context) (is survey, err error) {
	used, err := s.used(ctx) // before the records, because each record was there before its mark
	if err != nil {
		return is, err
	}
	names, err := s.names(ctx, kindLabel+"!="+kindHistory)
	if err != nil {
		return is, err
	}
	for name := range names {
		if _, ours := s.workerIn(name); ours {
			is.there = append(is.there, name)
		}
	}
	for _, worker := range used {
		is.there = append(is.there, s.historyName(worker))
		if !names[s.recordName(worker)] {
			is.lost = append(is.lost, worker)
		}
	}
	slices.Sort(is.there)
	err = s.exists(ctx)
	is.created = err == nil
	return is, err
}

func (s *Store) isStore(o *coordination.Lease) bool {
	return o.Name == s.prefix && o.Annotations[createdAnnotation] != ""
}

// repair makes a whole store of the objects that are left. It makes the object that marks the
// store last.
func (s *Store) repair(ctx context.Context, lost []int) error {
	for _, worker := range lost {
		if err := s.unuse(ctx, worker); err != nil {
			return err
		}
	}
	return s.makeStore(ctx, meta.CreateOptions{})
}

// try makes nothing. It returns an error if Create would fail after the wait: if the namespace or
// the right to create is missing, or if another program's Lease has the name. It ignores other
// errors, because they may be over after the wait.
func (s *Store) try(ctx context.Context) error {
	err := s.makeStore(ctx, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || errors.Is(err, lease.ErrBadRecord) {
		return err
	}
	return nil
}

// makeStore creates the object that marks the store, if it does not exist.
func (s *Store) makeStore(ctx context.Context, opts meta.CreateOptions) error {
	o := s.object(s.prefix, kindStore)
	o.Annotations[createdAnnotation] = time.Now().UTC().Format(time.RFC3339)
	_, err := s.leases.Create(ctx, o, opts)
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

// unuse lets a worker ID whose record is gone be used again. Its history stays.
func (s *Store) unuse(ctx context.Context, worker int) error {
	h, err := s.loadHistory(ctx, worker)
	if err != nil || h.object == nil {
		return err
	}
	record, err := s.get(ctx, s.recordName(worker)) // after the history: a record that is there by now has marked it again
	if err != nil || record != nil {
		return err
	}
	delete(h.object.Labels, usedLabel)
	h.object.Annotations[upToAnnotation] = "0" // versions begin again
	_, err = s.leases.Update(ctx, h.object, meta.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // another process repairs it
	}
	return s.explain(ctx, h.object.Name, err)
}
