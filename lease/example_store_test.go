package lease_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// memory is a lease.Store for the goroutines of one process. A store for a fleet keeps the
// same promises in its engine: Save replaces a record only if it has the version before,
// and what was saved stays saved.
type memory struct {
	mu      sync.Mutex
	records map[int]lease.Record
}

func (m *memory) Load(ctx context.Context) (lease.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var snap lease.Snapshot
	for _, r := range m.records {
		snap.Records = append(snap.Records, clone(r))
	}
	snap.Now = time.Now()
	return snap, ctx.Err()
}

func (m *memory) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	snap := lease.Snapshot{Now: time.Now()}
	if r, ok := m.records[worker]; ok {
		snap.Records = []lease.Record{clone(r)}
	}
	return snap, ctx.Err()
}

func (m *memory) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if has := m.records[r.Worker].Version; has != r.Version-1 {
		return r, fmt.Errorf("%w: worker %d has version %d", lease.ErrConflict, r.Worker, has)
	}
	if m.records == nil {
		m.records = map[int]lease.Record{}
	}
	r.Renewed = time.Now()
	m.records[r.Worker] = clone(r)
	return r, nil
}

// clone returns a record that shares no memory with r.
func clone(r lease.Record) lease.Record {
	r.Bounds = append([]time.Time(nil), r.Bounds...)
	return r
}

// A store that you write has three methods. Check it with leasetest:
//
//	func TestMemory(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leasetest.Storage {
//			m := new(memory)
//			return leasetest.Storage{Open: func() lease.Store { return m }}
//		}, nil)
//	}
func ExampleStore() {
	ctx := context.Background()
	l, err := lease.Acquire(ctx, new(memory), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(ctx)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	fmt.Println(gen.Decode(id).Worker, err)
	// Output: 0 <nil>
}
