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

// LoadWorker reads one record.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil || worker < 0 {
		return lease.Snapshot{}, err
	}
	return s.load(ctx, worker)
}

// Load reads all records. Of several callers one at a time reads, and callers that
// began to wait before it did so have its answer.
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

// answer is that of one Load.
type answer struct {
	number int64 // how many had begun
	snap   lease.Snapshot
}

func clone(snap lease.Snapshot) lease.Snapshot {
	snap.Records = slices.Clone(snap.Records)
	for i, r := range snap.Records {
		snap.Records[i].Bounds = slices.Clone(r.Bounds)
	}
	return snap
}

// load reads again when the connection is lost, as when the lead changes.
func (s *Store) load(ctx context.Context, worker int) (lease.Snapshot, error) {
	for {
		snap, err := s.loadOnce(ctx, worker)
		if !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionExpired) || ctx.Err() != nil {
			return snap, err
		}
	}
}

// loadOnce asks for the time, reads the records, and then who is alive. In another
// order, a holder that came in between would be taken for dead.
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

// readAll reads all records. First it asks which worker IDs were used, because a
// record is made together with the znode that says so; and in the end whether any
// of these znodes was removed, because what was removed later has been read.
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

// readOne reads one record. If there is none it looks whether there was one, and
// then reads again, because the first one may have been made meanwhile.
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

// latest returns the server's time after the records were read. It told its time
// somewhen between being asked and the answer; by this host's clock, that is so
// long ago. If a record was renewed in the time in doubt, it is later than that.
// Records that are further ahead are of a clock that was set back since: they must
// not make those that are renewed by the right one look old.
func latest(told time.Time, sinceAsked, sinceAnswered time.Duration, records []lease.Record) time.Time {
	now := told.Add(sinceAnswered)
	end := told.Add(sinceAsked + time.Millisecond) // the server tells whole ones
	for _, r := range records {
		if r.Renewed.After(now) && !r.Renewed.After(end) {
			now = r.Renewed
		}
	}
	return now
}

// markDead sets Renewed to zero where a holder has no ephemeral znode. Since both
// are changed together, there is none of another holder; and where it is missing
// because of a change since the record was read, that is read again.
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

// alive returns which worker IDs have an ephemeral znode, all or one.
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

// list returns the worker IDs that have a znode in dir, which is a part of the tree.
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
			return nil, &Error{dir + "/" + name, fmt.Errorf("%w: its name is not that of a worker ID", lease.ErrBadRecord)}
		}
		workers = append(workers, w)
	}
	return workers, nil
}

// read reads the records of workers that have one.
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

// many calls read for each of what, several at a time, and returns what they return
// but for the znodes that are not there.
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

// stored is a record without what the znode itself says: its fields hide those
// of the record.
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

// nodeName is the name of a worker ID's znode. Sorted names are sorted worker IDs.
func nodeName(worker int) string { return fmt.Sprintf("%010d", worker) }
