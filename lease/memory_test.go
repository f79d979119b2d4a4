//go:build go1.25

package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Leases that are tested for their log have another handler.
func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) }

// The bubbles of the tests are hosts that do not tell when they were booted.
func init() { machine.BootClock = noBoot }

var bootOfKernel = machine.BootClock

func noBoot() (host string, boot, asleep time.Duration) { return "", 0, 0 }

// line returns the line of whoever has no lease.
func (m *memory) line() book.Line { return book.LineTo(context.Background(), m) }

// query is a request to a store, and the entries that are the answer.
type query struct {
	do, key string // get, list, put, delete or now
	old     string
	value   []byte
	entries []Entry
}

// saves reports whether q saves a record.
func (q *query) saves() bool {
	_, ok := book.WorkerOf(book.RecordPrefix, q.key)
	return ok && q.do == "put"
}

func (q *query) reads() bool  { return q.do == "get" || q.do == "list" }
func (q *query) writes() bool { return q.do == "put" || q.do == "delete" }

// read answers a request that reads.
func (q *query) read(entries map[string]Entry) {
	if q.do == "get" {
		q.entries = []Entry{entries[q.key]}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if strings.HasPrefix(key, q.key) {
			q.entries = append(q.entries, entries[key])
		}
	}
}

// asks is a store that is one function.
type asks func(context.Context, *query) error

func (f asks) ask(ctx context.Context, q query) (Entry, error) {
	if err := f(ctx, &q); err != nil || len(q.entries) == 0 {
		return Entry{}, err
	}
	return q.entries[0], nil
}

func (f asks) Get(ctx context.Context, key string) (Entry, error) {
	return f.ask(ctx, query{do: "get", key: key})
}

func (f asks) List(ctx context.Context, prefix string) ([]Entry, error) {
	q := query{do: "list", key: prefix}
	err := f(ctx, &q)
	return slices.Clone(q.entries), err // a local copy writes into what it gets, and the explorer hears it again
}

func (f asks) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	return f.ask(ctx, query{do: "put", key: key, old: old, value: slices.Clone(value)})
}

func (f asks) Delete(ctx context.Context, key, old string) error {
	_, err := f.ask(ctx, query{do: "delete", key: key, old: old})
	return err
}

func (f asks) Now(ctx context.Context) (time.Time, error) {
	e, err := f.ask(ctx, query{do: "now"})
	return e.Time, err
}

// A fault makes a request, with next, or fails.
type fault func(ctx context.Context, q *query, next asks) error

var errDown = errors.New("the store is away")

func down(context.Context, *query, asks) error { return errDown }

// hangs answers no reads.
func hangs(ctx context.Context, q *query, next asks) error {
	if q.reads() {
		<-ctx.Done()
		return ctx.Err()
	}
	return next(ctx, q)
}

// bad lets no record be read.
func bad(ctx context.Context, q *query, next asks) error {
	if q.reads() && strings.HasPrefix(q.key, book.RecordPrefix) {
		return ErrBadRecord
	}
	return next(ctx, q)
}

// refuses stores no keys with these prefixes.
func refuses(prefixes ...string) fault {
	return func(ctx context.Context, q *query, next asks) error {
		if q.writes() && slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(q.key, prefix) }) {
			return errDown
		}
		return next(ctx, q)
	}
}

// ofSaves is a fault of the requests that save a record.
func ofSaves(f fault) fault {
	return func(ctx context.Context, q *query, next asks) error {
		if q.saves() {
			return f(ctx, q, next)
		}
		return next(ctx, q)
	}
}

// loses loses the answers to so many saves.
func loses(answers int64) fault {
	return ofSaves(func(ctx context.Context, q *query, next asks) error {
		err := next(ctx, q)
		if atomic.AddInt64(&answers, -1) >= 0 && err == nil {
			err = errDown
		}
		return err
	})
}

// silent loses all answers to saves.
var silent = loses(math.MaxInt64)

// repeats makes so many saves twice, as a client does that has lost the answer.
func repeats(saves int64) fault {
	return ofSaves(func(ctx context.Context, q *query, next asks) error {
		if atomic.AddInt64(&saves, -1) >= 0 {
			_ = next(ctx, q)
		}
		return next(ctx, q)
	})
}

// late lets saves arrive after their senders gave up.
func late(d time.Duration) fault {
	return ofSaves(func(_ context.Context, q *query, next asks) error {
		time.AfterFunc(d, func() { _ = next(context.Background(), q) })
		return errDown
	})
}

// slow lets saves take this long.
func slow(d time.Duration) fault {
	return ofSaves(func(ctx context.Context, q *query, next asks) error {
		if err := machine.Sleep(ctx, d); err != nil {
			return err
		}
		return next(ctx, q)
	})
}

// memory is a store that is a map, with the faults that the test sets. Saves are the Puts of
// records.
type memory struct {
	asks
	mu       sync.Mutex
	fault    asks
	entries  map[string]Entry
	versions map[string]int // how often each key was put
	puts     int
	saves    int
	asked    int           // requests that read,
	reads    int           // and the entries that they read
	ownClock bool          // it has a clock,
	offset   time.Duration // which is off by so much

	*WatermarkReader // of the test
}

func newMemory() *memory {
	m := &memory{entries: map[string]Entry{}, versions: map[string]int{}}
	m.asks = func(ctx context.Context, q *query) error {
		m.mu.Lock()
		ask := m.fault
		if q.reads() {
			m.asked, m.reads = m.asked+1, m.reads+1
		}
		m.mu.Unlock()
		return ask(ctx, q)
	}
	m.becomes()
	m.WatermarkReader = NewWatermarkReader(m.asks)
	return m
}

// withMemory runs a test with a store, in fake time.
func withMemory(t *testing.T, f func(t *testing.T, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newMemory()) })
}

// inBubble runs a subtest in fake time.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// becomes gives the store these faults, in place of those that it had.
func (m *memory) becomes(faults ...fault) {
	m.set(func() {
		m.fault = m.serve
		for _, f := range faults {
			next := m.fault
			m.fault = func(ctx context.Context, q *query) error { return f(ctx, q, next) }
		}
	})
}

// now is the time of an entry that is stored. m.mu must be held.
func (m *memory) now() time.Time {
	if !m.ownClock {
		return time.Time{}
	}
	return time.Now().Add(m.offset)
}

// serve is the store without faults.
func (m *memory) serve(ctx context.Context, q *query) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := m.entries[q.key]
	switch q.do {
	case "get", "list":
		q.read(m.entries)
	case "now":
		if !m.ownClock {
			return errors.ErrUnsupported
		}
		q.entries = []Entry{{Time: m.now()}}
		return nil
	default:
		if is.Version != q.old || q.do == "delete" && q.old == "" {
			return fmt.Errorf("%w: %s has version %q, not %q", ErrConflict, q.key, is.Version, q.old)
		}
		m.store(q)
		return nil
	}
	m.reads += max(0, len(q.entries)-1)
	return ctx.Err()
}

// store stores or deletes an entry. m.mu must be held.
func (m *memory) store(q *query) {
	if q.do == "delete" {
		delete(m.entries, q.key)
		return
	}
	if q.saves() {
		m.saves++
	}
	m.puts++
	m.versions[q.key]++
	m.entries[q.key] = Entry{Key: q.key, Version: fmt.Sprint(m.versions[q.key]), Value: q.value, Time: m.now()}
	q.entries = []Entry{m.entries[q.key]}
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// neverUsed reports whether nothing was ever stored.
func (m *memory) neverUsed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.versions) == 0
}

// stores stores an entry, whatever was there.
func (m *memory) stores(key, value string) {
	m.set(func() { m.store(&query{do: "put", key: key, value: []byte(value)}) })
}

// loses loses an entry, or stores something else in its place.
func (m *memory) loses(key, value string) {
	if m.stores(key, value); value == "" {
		m.set(func() { delete(m.entries, key) })
	}
}

// change changes the record of a worker ID. m.mu must be held.
func (m *memory) change(worker int, f func(*protocol.Record)) {
	key := book.RecordKey(worker)
	r, err := protocol.DecodeRecord(worker, m.entries[key])
	if err != nil {
		panic(err)
	}
	f(&r)
	value, err := r.Encode()
	if err != nil {
		panic(err)
	}
	m.store(&query{do: "put", key: key, value: value})
}

// take gives a worker ID to another owner, whose window begins at the bound.
func (m *memory) take(worker int, owner string) {
	m.set(func() {
		m.change(worker, func(r *protocol.Record) {
			before := *r
			r.Token, r.Owner, r.State = owner+"'s", owner, StateHeld
			r.From = r.Bound()
			*r, _ = r.WithBound(r.ClockSeq, r.Bound().Add(span)).WithHistoryOf(before, time.Time{})
		})
	})
}

// give makes a worker ID free.
func (m *memory) give(worker int) {
	m.set(func() { m.change(worker, func(r *protocol.Record) { r.State = StateFree }) })
}

func (m *memory) saved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// records returns all records, by worker ID.
func (m *memory) records() map[int]protocol.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return recordsIn(maps.Values(m.entries))
}

func recordsIn(entries iter.Seq[Entry]) map[int]protocol.Record {
	records := map[int]protocol.Record{}
	for e := range entries {
		if worker, ok := book.WorkerOf(book.RecordPrefix, e.Key); ok {
			r, err := protocol.DecodeRecord(worker, e)
			if err != nil {
				panic(err)
			}
			records[worker] = r
		}
	}
	return records
}

func (m *memory) record(worker int) protocol.Record { return m.records()[worker] }

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

// Layouts with an epoch before the bubble's time. plain and seqs have one worker ID.
var (
	plain = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, SequenceBits: 4}
	seqs  = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, ClockSeqBits: 2, SequenceBits: 4}
	fleet = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 8, SequenceBits: 4}
	both  = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 8, ClockSeqBits: 2, SequenceBits: 4}
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

// next issues an ID. The ID must be new, and in the clock's tick, and Ready must agree.
func (h *holder) next() snowflake.Parts {
	h.t.Helper()
	id, err := h.g.NextID()
	require.NoError(h.t, err)
	require.False(h.t, h.seen[id], "an ID was issued twice")
	h.seen[id] = true
	p := h.g.Decode(id)
	require.Equal(h.t, h.c.Now().UTC().Truncate(ms), p.Time)
	require.NoError(h.t, h.Ready())
	return p
}

func (h *holder) refused(want error) {
	h.t.Helper()
	_, err := h.g.NextID()
	require.ErrorIs(h.t, err, want)
	require.ErrorIs(h.t, h.Ready(), want)
}

func named(owner string) func(*Options) { return func(o *Options) { o.Owner = owner } }
func stops(o *Options)                  { o.OnLoss = Stop }
func unnamed(o *Options)                { o.Owner = "" }
func reuse(r Reuse) func(*Options)      { return func(o *Options) { o.Reuse = r } }
