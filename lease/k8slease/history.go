package k8slease

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Kubernetes has no transactions over several objects. So the record's object also has
// the last holdings that ended: the update that replaces a holder adds its holding there. When
// there are maxRecent of them, the next holder first copies them to the history's object, and
// then saves its record without them. Meanwhile both objects have them, but History returns
// them once.
//
// Nothing is dropped at once, either. If a holding ended before the time in the record's
// forgetAnnotation, it is forgotten. The next copy leaves it out.
const (
	recentAnnotation = "snowflake-ids/ended"  // of a record: the last holdings that ended
	forgetAnnotation = "snowflake-ids/forget" // of a record: holdings that ended before are forgotten

	holdingsAnnotation = "snowflake-ids/holdings" // of a history: the earlier holdings
	upToAnnotation     = "snowflake-ids/up-to"    // of a history: the version of the record from which it was copied
	workerAnnotation   = "snowflake-ids/worker"   // of a history
)

const (
	// maxRecent and maxRecentBytes bound the history in a record, so that renewals stay small.
	maxRecent      = 8
	maxRecentBytes = 16 << 10

	// maxHistory is how many bytes of holdings a worker ID has, about. The API server lets an
	// object have 256 KiB of annotations.
	maxHistory = 192 << 10
)

// ending is a holding that ends with a save.
type ending struct {
	lease.Holding
	forget time.Time // holdings that ended before are dropped
	cut    time.Time // forget more, up to this time, if the history is too long
}

// SaveEnding does what Save does, and keeps the holding that ends in the same update.
func (s *Store) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	return s.save(ctx, r, &ending{Holding: ended, forget: forget})
}

// History reads the record first. If a holding is no longer in the record, it is in the history's
// object already.
func (s *Store) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := s.get(ctx, s.recordName(worker))
	if err != nil {
		return nil, err
	}
	var recent []lease.Holding
	var forget time.Time
	if o == nil {
		err = s.mayBeUnused(ctx, worker)
	} else {
		recent, forget, err = s.decodeRecent(o)
	}
	if err != nil {
		return nil, err
	}
	h, err := s.loadHistory(ctx, worker)
	if err != nil {
		return nil, err
	}
	return merge(h.holdings, recent, forget), nil
}

// merge returns older and newer holdings, without those that ended before forget. If two
// are the same holding, it returns the newer one.
func merge(older, newer []lease.Holding, forget time.Time) []lease.Holding {
	var all []lease.Holding
	for _, h := range slices.Concat(older, newer) {
		same := func(k lease.Holding) bool {
			return k.Token == h.Token && k.ClockSeq == h.ClockSeq && k.From.Equal(h.From)
		}
		all = append(slices.DeleteFunc(all, same), h)
	}
	return slices.DeleteFunc(all, func(h lease.Holding) bool { return h.To.Before(forget) })
}

// decodeRecent returns the part of the history that a record's object has.
func (s *Store) decodeRecent(o *coordination.Lease) (recent []lease.Holding, forget time.Time, err error) {
	if text := o.Annotations[recentAnnotation]; text != "" {
		err = json.Unmarshal([]byte(text), &recent)
	}
	if text := o.Annotations[forgetAnnotation]; text != "" && err == nil {
		forget, err = time.Parse(time.RFC3339Nano, text)
	}
	if err != nil {
		err = fmt.Errorf("k8slease: %s: %w: annotations %s, %s: %w", s.place(o.Name), lease.ErrBadRecord, recentAnnotation, forgetAnnotation, err)
	}
	return recent, forget, err
}

// keepEnding puts the holding that ends into the record's object.
func (s *Store) keepEnding(o *coordination.Lease, r *lease.Record, e *ending) error {
	recent, forget, err := s.decodeRecent(o)
	if err != nil {
		return err
	}
	if e.forget.After(forget) {
		forget = e.forget.UTC()
	}
	text, err := json.Marshal(merge(recent, []lease.Holding{e.Holding}, forget))
	if err != nil {
		return fmt.Errorf("k8slease: %w", err)
	}
	o.Annotations[recentAnnotation] = string(text)
	if !forget.IsZero() {
		o.Annotations[forgetAnnotation] = forget.Format(time.RFC3339Nano)
	}
	if e.cut.After(r.Forgotten) {
		r.Forgotten = e.cut
	}
	return nil
}

// history is the content of a history's object.
type history struct {
	object   *coordination.Lease // nil if it does not exist
	holdings []lease.Holding
	upTo     uint64
}

func (s *Store) loadHistory(ctx context.Context, worker int) (history, error) {
	o, err := s.get(ctx, s.historyName(worker))
	if err != nil || o == nil {
		return history{}, err
	}
	return s.decodeHistory(o, worker)
}

func (s *Store) decodeHistory(o *coordination.Lease, worker int) (h history, err error) {
	if of, ok := s.workerOf(o.Annotations[workerAnnotation]); !ok || of != worker {
		return h, s.notOurs(o.Name)
	}
	h.object = o
	h.upTo, err = strconv.ParseUint(o.Annotations[upToAnnotation], 10, 64)
	if text := o.Annotations[holdingsAnnotation]; text != "" && err == nil {
		err = json.Unmarshal([]byte(text), &h.holdings)
	}
	if err != nil {
		return h, fmt.Errorf("k8slease: %s: %w: annotations %s, %s: %w", s.place(o.Name), lease.ErrBadRecord, holdingsAnnotation, upToAnnotation, err)
	}
	return h, nil
}

// put saves a history. If another process has changed it meanwhile, the error is a conflict.
func (s *Store) put(ctx context.Context, worker int, h history) error {
	name := s.historyName(worker)
	o, exists := h.object, h.object != nil
	if !exists {
		o = s.object(name, kindHistory)
	}
	text, err := json.Marshal(h.holdings)
	if err != nil {
		return fmt.Errorf("k8slease: %w", err)
	}
	o.Annotations[workerAnnotation] = strconv.Itoa(worker)
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[usedLabel] = "true"
	o.Annotations[upToAnnotation] = strconv.FormatUint(h.upTo, 10)
	o.Annotations[holdingsAnnotation] = string(text)
	if exists {
		_, err = s.leases.Update(ctx, o, meta.UpdateOptions{})
	} else {
		_, err = s.leases.Create(ctx, o, meta.CreateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return err
	}
	return s.explain(ctx, name, err)
}

// change loads a history, changes it and saves it. If change returns false, it saves nothing.
func (s *Store) change(ctx context.Context, worker int, change func(*history) bool) error {
	for ctx.Err() == nil {
		h, err := s.loadHistory(ctx, worker)
		if err != nil || !change(&h) {
			return err
		}
		if err = s.put(ctx, worker, h); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return ctx.Err()
}

// markUsed notes in the history that the record exists.
func (s *Store) markUsed(ctx context.Context, worker int) error {
	return s.change(ctx, worker, func(h *history) bool {
		return h.object == nil || h.object.Labels[usedLabel] == ""
	})
}

// makeRoom makes room in a record's object for the holding that ends. If there are too many holdings,
// it copies them to the history; old is the record in the object. If the history becomes too long,
// it sets e.cut.
func (s *Store) makeRoom(ctx context.Context, o *coordination.Lease, old lease.Record, e *ending) error {
	recent, forget, err := s.decodeRecent(o)
	if err != nil || len(recent) < maxRecent && len(o.Annotations[recentAnnotation]) < maxRecentBytes {
		return err
	}
	var kept []lease.Holding
	err = s.change(ctx, old.Worker, func(h *history) bool {
		kept = h.holdings
		if h.upTo >= old.Version {
			return false // another process has copied them already
		}
		h.holdings, h.upTo = merge(h.holdings, recent, forget), old.Version
		kept = h.holdings
		return true
	})
	if err != nil {
		return err
	}
	delete(o.Annotations, recentAnnotation)
	e.cut = s.surplus(kept)
	if e.cut.After(e.forget) {
		e.forget = e.cut
	}
	return nil
}

// surplus returns a time. If holdings that ended before it are forgotten, the others have room. If all
// have room, it returns the zero time.
func (s *Store) surplus(kept []lease.Holding) (cut time.Time) {
	size := func(h lease.Holding) int {
		text, _ := json.Marshal(h)
		return len(text) + 1
	}
	bytes := 0
	for _, h := range kept {
		bytes += size(h)
	}
	kept = slices.Clone(kept)
	slices.SortFunc(kept, func(a, b lease.Holding) int { return cmp.Or(a.To.Compare(b.To), a.From.Compare(b.From)) })
	for _, h := range kept {
		if bytes <= s.limit {
			break
		}
		bytes -= size(h)
		cut = h.To.Add(1).UTC()
	}
	return cut
}
