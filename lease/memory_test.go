package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// Leases that are tested for their log have another handler.
func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) }

// memory is a store that is a map with four methods, and fails as the test sets it. Saves are
// the Puts of records.
type memory struct {
	mu       sync.Mutex
	entries  map[string]Entry
	puts     int
	saves    int
	reads    int           // entries that were read
	ownClock bool          // it has a clock,
	offset   time.Duration // which is off by so much

	down       bool          // no request reaches the store
	hangs      bool          // reads are not answered
	bad        bool          // no record can be read
	failSaves  int           // so many saves are made, but return an error
	loseAnswer bool          // saves are made, but return an error
	resends    int           // so many saves arrive twice, because the client lost the answer
	refuses    map[int]bool  // saves of these workers fail
	delay      time.Duration // saves arrive this late, after their senders gave up
	slow       time.Duration // saves take this long
	onSave     func()        // is called before a save
}

var errDown = errors.New("the store is away")

func newMemory() *memory { return &memory{entries: map[string]Entry{}} }

func (m *memory) Now(context.Context) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down:
		return time.Time{}, errDown
	case !m.ownClock:
		return time.Time{}, errors.ErrUnsupported
	}
	return m.now(), nil
}

// now is the time of an entry that is stored. m.mu must be held.
func (m *memory) now() time.Time {
	if !m.ownClock {
		return time.Time{}
	}
	return time.Now().Add(m.offset)
}

func (m *memory) Get(ctx context.Context, key string) (Entry, error) {
	found, err := m.read(ctx, func() []string { return []string{key} })
	if err != nil || found[0].Version == "" {
		return Entry{}, err
	}
	return found[0], nil
}

func (m *memory) List(ctx context.Context, prefix string) ([]Entry, error) {
	return m.read(ctx, func() []string {
		keys := slices.Sorted(maps.Keys(m.entries))
		return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
	})
}

func (m *memory) read(ctx context.Context, keys func() []string) (found []Entry, err error) {
	m.mu.Lock()
	if m.hangs {
		m.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	defer m.mu.Unlock()
	m.reads++
	if m.down {
		return nil, errDown
	}
	for _, key := range keys() {
		if m.bad && strings.HasPrefix(key, recordPrefix) {
			return nil, ErrBadRecord
		}
		found = append(found, m.entries[key])
	}
	m.reads += max(0, len(found)-1)
	return found, ctx.Err()
}

// Put serves a save, or fails as the test set it.
func (m *memory) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	worker, isSave := workerOf(recordPrefix, key)
	put := func() (Entry, error) { return m.put(key, old, value) }
	m.mu.Lock()
	down := m.down
	if !isSave {
		m.mu.Unlock()
		if down {
			return Entry{}, errDown
		}
		return put()
	}
	down = down || m.refuses[worker]
	delay, loseAnswer, slow, resent, onSave := m.delay, m.loseAnswer || m.failSaves > 0, m.slow, m.resends > 0, m.onSave
	m.failSaves, m.resends = max(0, m.failSaves-1), max(0, m.resends-1)
	m.mu.Unlock()
	if onSave != nil {
		onSave()
	}
	if slow > 0 {
		if err := sleep(ctx, slow); err != nil {
			return Entry{}, err
		}
	}
	if delay > 0 {
		time.AfterFunc(delay, func() { _, _ = put() })
		return Entry{}, errDown
	}
	if down {
		return Entry{}, errDown
	}
	saved, err := put()
	if resent {
		return put()
	}
	if err == nil && loseAnswer {
		return Entry{}, errDown
	}
	return saved, err
}

func (m *memory) put(key, old string, value []byte) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is := m.entries[key].Version; is != old {
		return Entry{}, fmt.Errorf("%w: %s has version %q, not %q", ErrConflict, key, is, old)
	}
	if strings.HasPrefix(key, recordPrefix) {
		m.saves++
	}
	m.puts++
	m.entries[key] = Entry{Key: key, Version: fmt.Sprint(m.puts), Value: slices.Clone(value), Time: m.now()}
	return m.entries[key], nil
}

func (m *memory) Delete(ctx context.Context, key, old string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down:
		return errDown
	case m.entries[key].Version != old || old == "":
		return ErrConflict
	}
	delete(m.entries, key)
	return ctx.Err()
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// drop removes the record of a worker ID. m.mu must be held.
func (m *memory) drop(worker int) { delete(m.entries, recordKey(worker)) }

// wipe removes everything.
func (m *memory) wipe() { m.set(func() { clear(m.entries) }) }

// change changes the record of a worker ID. m.mu must be held.
func (m *memory) change(worker int, f func(*Record)) {
	key := recordKey(worker)
	r, err := decodeRecord(worker, m.entries[key])
	if err != nil {
		panic(err)
	}
	f(&r)
	value, err := r.encode()
	if err != nil {
		panic(err)
	}
	m.puts++
	m.entries[key] = Entry{Key: key, Version: fmt.Sprint(m.puts), Value: value, Time: m.entries[key].Time}
}

func (m *memory) saved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// records returns all records, by worker ID.
func (m *memory) records() map[int]Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := map[int]Record{}
	for key, e := range m.entries {
		if worker, ok := workerOf(recordPrefix, key); ok {
			r, err := decodeRecord(worker, e)
			if err != nil {
				panic(err)
			}
			records[worker] = r
		}
	}
	return records
}

func (m *memory) record(worker int) Record { return m.records()[worker] }

// ended returns the history of a worker ID.
func (m *memory) ended(worker int) []Holding { return m.record(worker).Ended }

func (m *memory) count() int { return len(m.records()) }

// clock is the bubble's time plus an offset.
type clock struct{ offset atomic.Int64 }

func clockAt(d time.Duration) *clock {
	c := new(clock)
	c.set(d)
	return c
}

func (c *clock) Now() time.Time       { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) set(d time.Duration)  { c.offset.Store(int64(d)) }
func (c *clock) step(d time.Duration) { c.offset.Add(int64(d)) }

const ms = time.Millisecond

// Layouts with an epoch before the bubble's time. All but fleet have one worker ID.
var (
	plain = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, SequenceBits: 4}
	seqs  = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, ClockSeqBits: 2, SequenceBits: 4}
	fleet = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 8, SequenceBits: 4}
	span  = 3 * time.Second
)

// holder is a lease and its generator.
type holder struct {
	*Lease
	t    *testing.T
	g    *snowflake.Generator
	c    *clock
	seen map[snowflake.ID]bool
}

func acquire(t *testing.T, m Store, layout snowflake.Layout, c *clock, change ...func(*Options)) (*holder, error) {
	t.Helper()
	o := &Options{Layout: layout, Owner: "a", Clock: c, NewStore: true}
	for _, f := range change {
		f(o)
	}
	l, err := Acquire(t.Context(), m, o)
	if err != nil {
		return nil, err
	}
	policy := snowflake.FailPolicy()
	if layout.ClockSeqBits > 0 {
		policy = snowflake.ClockSeqPolicy()
	}
	g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: c, OnBackward: policy})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return &holder{l, t, g, c, map[snowflake.ID]bool{}}, nil
}

func mustAcquire(t *testing.T, m Store, layout snowflake.Layout, c *clock, change ...func(*Options)) *holder {
	t.Helper()
	h, err := acquire(t, m, layout, c, change...)
	require.NoError(t, err)
	return h
}

// next issues an ID. The ID must be new, in the clock's tick, and before the recorded bound.
func (h *holder) next() snowflake.Parts {
	h.t.Helper()
	id, err := h.g.NextID()
	require.NoError(h.t, err)
	require.False(h.t, h.seen[id], "an ID was issued twice")
	h.seen[id] = true
	p := h.g.Decode(id)
	require.Equal(h.t, h.c.Now().UTC().Truncate(ms), p.Time)
	return p
}

func (h *holder) refused(want error) {
	h.t.Helper()
	_, err := h.g.NextID()
	require.ErrorIs(h.t, err, want)
}

func named(owner string) func(*Options) { return func(o *Options) { o.Owner = owner } }
func stops(o *Options)                  { o.OnLoss = Stop }
func reuse(r Reuse) func(*Options)      { return func(o *Options) { o.Reuse = r } }
