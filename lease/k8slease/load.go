package k8slease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/seed-5394e6b1/snowflake/lease"
)

const (
	recordAnnotation = "snowflake-ids/record"
	markedAnnotation = "snowflake-ids/marked" // of a record: its history has usedLabel
)

// maxPage is how many objects the API server returns at a time.
const maxPage = 500

// list returns the store's objects as they were at one moment, which is not before the call.
// An empty resourceVersion asks for that; any other would let the server answer from a
// cache that is behind.
func (s *Store) list(ctx context.Context, selector string) ([]coordination.Lease, error) {
	var all []coordination.Lease
	opts := meta.ListOptions{LabelSelector: selector, Limit: s.page}
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

// used returns the worker IDs whose histories say that there has to be a record. It asks for a table
// of their names, because histories are large.
func (s *Store) used(ctx context.Context) (used []int, err error) {
	names, err := s.names(ctx, usedLabel+"=true")
	for name := range names {
		if worker, ok := s.workerIn(name); ok && name == s.historyName(worker) {
			used = append(used, worker)
		}
	}
	slices.Sort(used)
	return used, err
}

// names returns the names of the namespace's Leases as they were at one moment, which is not before
// the call.
func (s *Store) names(ctx context.Context, selector string) (map[string]bool, error) {
	names := map[string]bool{}
	opts := meta.ListOptions{LabelSelector: selector, Limit: s.page}
	for {
		// The server has each column's text, and the first is the name.
		var table struct {
			Kind     string        `json:"kind"`
			Metadata meta.ListMeta `json:"metadata"`
			Rows     []struct {
				Cells []any `json:"cells"`
			} `json:"rows"`
		}
		answer := s.requests.Get().Namespace(s.namespace).Resource("leases").
			VersionedParams(&opts, scheme.ParameterCodec).Param("includeObject", string(meta.IncludeNone)).
			SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Do(ctx)
		err := answer.Error()
		if apierrors.IsResourceExpired(err) && opts.Continue != "" { // it took too long
			clear(names)
			opts.Continue = ""
			continue
		}
		if err == nil {
			text, _ := answer.Raw() // its error is nil
			err = json.Unmarshal(text, &table)
		}
		if err == nil && table.Kind != "Table" {
			err = fmt.Errorf("the API server sent a %q and no table", table.Kind)
		}
		if err != nil {
			return nil, s.explain(ctx, s.prefix+"-*", err)
		}
		for _, row := range table.Rows {
			name, ok := "", false
			if len(row.Cells) > 0 {
				name, ok = row.Cells[0].(string)
			}
			if !ok {
				return nil, s.explain(ctx, s.prefix+"-*", errors.New("the API server sent a table without names"))
			}
			names[name] = true
		}
		if opts.Continue = table.Metadata.Continue; opts.Continue == "" {
			return names, nil
		}
	}
}

// Load lists the records. It asks for the Leases of others, too, and looks at their names: a Lease that
// has the name of a record or of a history makes its worker ID unusable.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, err
	}
	var used []int
	var err error
	doubtful := s.doubtful.Load()
	if doubtful { // before the records, which come first into the store
		if used, err = s.used(ctx); err != nil {
			return lease.Snapshot{}, err
		}
	}
	all, err := s.list(ctx, kindLabel+"!="+kindHistory)
	if err != nil {
		return lease.Snapshot{}, err
	}
	snap := lease.Snapshot{Lost: map[int]error{}}
	created := false
	for _, o := range all {
		worker, ours := s.workerIn(o.Name)
		switch {
		case s.isStore(&o):
			created = true
		case o.Name == s.prefix:
			return lease.Snapshot{}, s.notOurs(o.Name)
		case o.Labels[storeLabel] != s.prefix && (!ours || o.Annotations[recordAnnotation] == ""):
			if ours {
				snap.Lost[worker] = s.notOurs(o.Name)
			}
		default:
			r, err := s.decode(&o)
			if err != nil {
				return lease.Snapshot{}, err
			}
			snap.Records = append(snap.Records, r)
		}
	}
	if !created {
		return lease.Snapshot{}, s.wiped(s.prefix, ", so the store was wiped or never created")
	}
	gone := map[int]bool{}
	for _, worker := range used {
		gone[worker] = true
	}
	for _, r := range snap.Records {
		delete(snap.Lost, r.Worker) // if it has a history that is somebody else's, it can be renewed
		delete(gone, r.Worker)
	}
	for worker := range gone {
		snap.Lost[worker] = s.recordIsGone(worker)
		if len(snap.Records) == 0 {
			return lease.Snapshot{}, snap.Lost[worker]
		}
	}
	if doubtful && len(gone) == 0 {
		s.doubtful.Store(false)
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
		if history.Labels[usedLabel] != "" {
			s.doubtful.Store(true)
			return s.recordIsGone(worker)
		}
	}
	return s.exists(ctx)
}

func (s *Store) recordIsGone(worker int) error {
	return s.wiped(s.recordName(worker), ", and "+s.place(s.historyName(worker))+" says that it was used")
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

// workerIn returns the worker ID of the record or history that has a name.
func (s *Store) workerIn(name string) (int, bool) {
	text, _ := strings.CutPrefix(name, s.prefix+"-")
	worker, ok := s.workerOf(strings.TrimSuffix(text, "-history"))
	return worker, ok && (name == s.recordName(worker) || name == s.historyName(worker))
}

func (s *Store) workerOf(text string) (int, bool) {
	worker, err := strconv.Atoi(text)
	return worker, err == nil && worker >= 0
}
