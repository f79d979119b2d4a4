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

// Load reads one record at once. Of those who want more, one at a time reads, and
// those who began to wait before it did so have its answer.
func (s *store) Load(ctx context.Context, first, last int) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, err
	}
	if first == last {
		return s.load(ctx, first, last)
	}
	before := s.begun.Load()
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return lease.Snapshot{}, &Error{s.servers(), ctx.Err()}
	}
	if a := s.answer; a.number > before && a.first == first && a.last == last {
		return clone(a.snap), nil
	}
	a := answer{number: s.begun.Add(1), first: first, last: last}
	var err error
	if a.snap, err = s.load(ctx, first, last); err != nil {
		return lease.Snapshot{}, err
	}
	s.answer = a
	return clone(a.snap), nil
}

// answer is that of one Load.
type answer struct {
	number      int64 // how many had begun
	first, last int
	snap        lease.Snapshot
}

func clone(snap lease.Snapshot) lease.Snapshot {
	snap.Records = slices.Clone(snap.Records)
	for i, r := range snap.Records {
		snap.Records[i].Bounds = slices.Clone(r.Bounds)
	}
	return snap
}

// load reads again when the connection is lost, as when the lead changes.
func (s *store) load(ctx context.Context, first, last int) (lease.Snapshot, error) {
	for {
		snap, err := s.loadOnce(ctx, first, last)
		if !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionExpired) || ctx.Err() != nil {
			return snap, err
		}
	}
}

// loadOnce asks for the time, reads the records, and then who is alive. In another
// order, a holder that came in between would be taken for dead.
func (s *store) loadOnce(ctx context.Context, first, last int) (snap lease.Snapshot, err error) {
	asked := time.Now()
	told, err := s.tick(ctx)
	if err != nil {
		return snap, err
	}
	answered := time.Now()
	workers := []int{first}
	if first != last {
		if workers, err = s.list(ctx, s.servers(), first, last); err != nil {
			return snap, err
		}
	}
	records, err := s.readAll(ctx, workers)
	if err != nil {
		return snap, err
	}
	if err := s.markDead(ctx, records, first, last); err != nil {
		return snap, err
	}
	now := latest(told, time.Since(asked), time.Since(answered), records)
	return lease.Snapshot{Records: records, Now: now, OwnClock: true}, nil
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
func (s *store) markDead(ctx context.Context, records []lease.Record, first, last int) error {
	if !slices.ContainsFunc(records, held) {
		return nil
	}
	alive, err := s.alive(ctx, first, last)
	if err != nil {
		return err
	}
	var missing []int
	for _, r := range records {
		if held(r) && !alive[r.Worker] {
			missing = append(missing, r.Worker)
		}
	}
	again, err := s.readAll(ctx, missing)
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

// alive returns the worker IDs from first to last that have an ephemeral znode.
func (s *store) alive(ctx context.Context, first, last int) (map[int]bool, error) {
	alive := map[int]bool{}
	if first == last {
		p := s.instanceOf(first)
		exists, err := call(ctx, s, p, func() (bool, error) {
			exists, _, err := s.conn.Exists(p)
			return exists, err
		})
		alive[first] = exists
		return alive, err
	}
	workers, err := s.list(ctx, s.instances(), first, last)
	for _, w := range workers {
		alive[w] = true
	}
	return alive, err
}

// list returns the worker IDs from first to last that have a znode in dir.
func (s *store) list(ctx context.Context, dir string, first, last int) ([]int, error) {
	names, err := call(ctx, s, dir, func() ([]string, error) {
		names, _, err := s.conn.Children(dir)
		return names, err
	})
	if err != nil {
		return nil, err
	}
	var workers []int
	for _, name := range names {
		w, err := strconv.Atoi(name)
		if err != nil || nodeName(w) != name {
			return nil, &Error{dir + "/" + name, fmt.Errorf("%w: its name is not that of a worker ID", lease.ErrBadRecord)}
		}
		if first <= w && w <= last {
			workers = append(workers, w)
		}
	}
	return workers, nil
}

// readAll reads the records of workers, without those that have none.
func (s *store) readAll(ctx context.Context, workers []int) ([]lease.Record, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	records := make([]lease.Record, len(workers))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(workers), maxReaders) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(workers)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				var err error
				records[i], err = s.read(ctx, workers[i])
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
	return slices.DeleteFunc(records, func(r lease.Record) bool { return r.Version == 0 }), nil
}

// read reads the record of one worker ID.
func (s *store) read(ctx context.Context, worker int) (lease.Record, error) {
	type answer struct {
		data []byte
		stat *zk.Stat
	}
	p := s.Locate(worker)
	a, err := call(ctx, s, p, func() (answer, error) {
		data, stat, err := s.conn.Get(p)
		return answer{data, stat}, err
	})
	if err != nil {
		return lease.Record{}, err
	}
	r, err := decode(a.data, a.stat)
	if err == nil && r.Worker != worker {
		err = fmt.Errorf("%w: it is of worker %d", lease.ErrBadRecord, r.Worker)
	}
	if err != nil {
		return lease.Record{}, &Error{p, err}
	}
	return r, nil
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
