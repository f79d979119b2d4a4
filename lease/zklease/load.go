package zklease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// all stands for all worker IDs.
const all = -1

// LoadWorker returns the record of one worker ID, if it has one.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil || worker < 0 {
		return lease.Snapshot{}, err
	}
	return s.load(ctx, worker)
}

// Load returns all records. If several callers want them, one at a time reads, and its
// answer also serves the callers that were waiting before it began.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, err
	}
	before := s.begun.Load()
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return lease.Snapshot{}, &Error{s.servers(), s.tooLate(ctx)}
	}
	if s.answer.number > before {
		return clone(s.answer.snap), nil
	}
	a := answer{number: s.begun.Add(1)}
	var err error
	if a.snap, err = s.load(ctx, all); err != nil {
		return lease.Snapshot{}, err
	}
	s.answer = a
	return clone(a.snap), nil
}

// answer is the answer of one Load.
type answer struct {
	number int64 // how many Loads had begun, with this one
	snap   lease.Snapshot
}

func clone(snap lease.Snapshot) lease.Snapshot {
	snap.Records = slices.Clone(snap.Records)
	for i, r := range snap.Records {
		snap.Records[i].Bounds = slices.Clone(r.Bounds)
	}
	return snap
}

// load reads again if the connection is lost, for example when the leader changes.
func (s *Store) load(ctx context.Context, worker int) (lease.Snapshot, error) {
	for {
		snap, err := s.loadOnce(ctx, worker)
		if !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionExpired) || ctx.Err() != nil {
			return snap, err
		}
	}
}

// loadOnce asks for the time, reads the records, and then reads which holders are alive. In
// another order, a holder that came in between would be taken for dead.
func (s *Store) loadOnce(ctx context.Context, worker int) (snap lease.Snapshot, err error) {
	asked := time.Now()
	told, err := s.tick(ctx)
	if err != nil {
		return snap, err
	}
	answered := time.Now()
	var records []lease.Record
	if worker == all {
		records, err = s.readAll(ctx)
	} else {
		records, err = s.readOne(ctx, worker)
	}
	if err != nil {
		return snap, err
	}
	if err := s.markDead(ctx, records, worker); err != nil {
		return snap, err
	}
	now := latest(told, time.Since(asked), time.Since(answered), records)
	return lease.Snapshot{Records: records, Now: now, OwnClock: true}, nil
}

// readAll reads all records. It first lists the worker IDs that were used, because a record
// and the znode that says so are made together. At the end it asks whether any of these
// znodes was removed; if one is removed later, its record has been read.
func (s *Store) readAll(ctx context.Context) ([]lease.Record, error) {
	used, err := s.list(ctx, s.used())
	if err != nil {
		return nil, err
	}
	workers, err := s.list(ctx, s.servers())
	if err != nil {
		return nil, err
	}
	records, err := s.read(ctx, workers)
	if err != nil {
		return nil, err
	}
	there := map[int]bool{}
	for _, r := range records {
		there[r.Worker] = true
	}
	for _, w := range used {
		if !there[w] {
			return nil, gone(s.Locate(w))
		}
	}
	return records, s.intact(ctx)
}

// readOne reads one record. If there is no record, it looks whether the worker ID was used,
// and then reads again, because the first record may have been made meanwhile.
func (s *Store) readOne(ctx context.Context, worker int) ([]lease.Record, error) {
	records, err := s.read(ctx, []int{worker})
	if err != nil || len(records) > 0 {
		return records, err
	}
	used, err := s.exists(ctx, s.usedOf(worker))
	if err != nil {
		return nil, err
	}
	if !used {
		return nil, s.intact(ctx)
	}
	if records, err = s.read(ctx, []int{worker}); err == nil && len(records) == 0 {
		err = gone(s.Locate(worker))
	}
	return records, err
}

// latest returns the server's time after the records were read. The server told its time at
// some moment between being asked and its answer; by this host's clock, this was between
// sinceAnswered and sinceAsked ago. If a record was renewed within this uncertainty, the
// server's time is not before it. If a record is further ahead, the clock that renewed it
// was set back since; it must not make records look old that the right clock renewed.
func latest(told time.Time, sinceAsked, sinceAnswered time.Duration, records []lease.Record) time.Time {
	now := told.Add(sinceAnswered)
	end := told.Add(sinceAsked + time.Millisecond) // the server tells whole milliseconds
	for _, r := range records {
		if r.Renewed.After(now) && !r.Renewed.After(end) {
			now = r.Renewed
		}
	}
	return now
}

// markDead sets Renewed to zero for each holder without an ephemeral znode. The record and
// the ephemeral znode change together. So an ephemeral znode belongs to the record's
// holder; and if it is missing because of a change since the record was read, markDead
// reads the record again.
func (s *Store) markDead(ctx context.Context, records []lease.Record, worker int) error {
	if !slices.ContainsFunc(records, held) {
		return nil
	}
	alive, err := s.alive(ctx, worker)
	if err != nil {
		return err
	}
	var missing []int
	for _, r := range records {
		if held(r) && !alive[r.Worker] {
			missing = append(missing, r.Worker)
		}
	}
	again, err := s.read(ctx, missing)
	if err != nil {
		return err
	}
	latest := map[int]lease.Record{}
	for _, r := range again {
		latest[r.Worker] = r
	}
	for i, r := range records {
		if now, ok := latest[r.Worker]; ok {
			if now.Version == r.Version {
				now.Renewed = time.Time{}
			}
			records[i] = now
		}
	}
	return nil
}

func held(r lease.Record) bool { return r.State == lease.Held }

// alive returns which worker IDs have an ephemeral znode: for all worker IDs, or for one.
func (s *Store) alive(ctx context.Context, worker int) (map[int]bool, error) {
	if worker != all {
		there, err := s.exists(ctx, s.instanceOf(worker))
		return map[int]bool{worker: there}, err
	}
	workers, err := s.list(ctx, s.instances())
	alive := map[int]bool{}
	for _, w := range workers {
		alive[w] = true
	}
	return alive, err
}

// list returns the worker IDs that have a znode in dir, a directory of the tree.
func (s *Store) list(ctx context.Context, dir string) ([]int, error) {
	names, err := s.children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, notWhole(dir)
	}
	if err != nil {
		return nil, err
	}
	var workers []int
	for _, name := range names {
		w, err := strconv.Atoi(name)
		if err != nil || nodeName(w) != name {
			return nil, &Error{dir + "/" + name, fmt.Errorf("%w: its name is not a worker ID", lease.ErrBadRecord)}
		}
		workers = append(workers, w)
	}
	return workers, nil
}

// read returns the records of the workers that have a record.
func (s *Store) read(ctx context.Context, workers []int) ([]lease.Record, error) {
	records, err := many(ctx, workers, func(ctx context.Context, worker int) (lease.Record, error) {
		p := s.Locate(worker)
		data, stat, err := s.get(ctx, p)
		if err != nil {
			return lease.Record{}, err
		}
		r, err := decode(data, stat)
		if err == nil && r.Worker != worker {
			err = fmt.Errorf("%w: it is of worker %d", lease.ErrBadRecord, r.Worker)
		}
		if err != nil {
			return lease.Record{}, &Error{p, err}
		}
		return r, nil
	})
	return records, err
}

// many calls read for each element of what, several at a time. It returns the results,
// without the znodes that do not exist.
func many[A, B any](ctx context.Context, what []A, read func(context.Context, A) (B, error)) ([]B, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]B, len(what))
	there := make([]bool, len(what))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(what), maxReaders) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(what)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				var err error
				results[i], err = read(ctx, what[i])
				there[i] = err == nil
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n := 0
	for i, ok := range there {
		if ok {
			results[n] = results[i]
			n++
		}
	}
	return results[:n:n], nil
}

func (s *Store) get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	type answer struct {
		data []byte
		stat *zk.Stat
	}
	a, err := call(ctx, s, path, func() (answer, error) {
		data, stat, err := s.conn.Get(path)
		return answer{data, stat}, err
	})
	return a.data, a.stat, err
}

// stored is a record without the fields that the znode itself has: stored's fields hide the
// record's.
type stored struct {
	lease.Record
	Version *uint64    `json:"version,omitempty"`
	Renewed *time.Time `json:"renewed,omitempty"`
}

func encode(r lease.Record) ([]byte, error) { return json.Marshal(stored{Record: r}) }

func decode(data []byte, stat *zk.Stat) (lease.Record, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return lease.Record{}, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	r := s.Record
	r.Version, r.Renewed = uint64(max(stat.Version, 0)), time.UnixMilli(stat.Mtime).UTC()
	return r, r.Validate()
}

// nodeName is the name of a worker ID's znode. Names sort as worker IDs do.
func nodeName(worker int) string { return fmt.Sprintf("%010d", worker) }
