//go:build go1.25

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

var (
	errRefused = errors.New("the store refuses connections")
	errReset   = errors.New("connection reset")
	errDead    = errors.New("the process is dead")
)

// store is a server that all nodes reach over a simulated network. It keeps the promises of
// lease.Store.
type store struct {
	w       *world
	machine *machine
	memory  leasetest.Memory // the store without a network and without checks
	faults  faults
	wiped   atomic.Bool // it has lost entries

	mu      sync.Mutex // also makes each change of memory and of the rest atomic
	workers map[int]*worker
	holders map[string][]*process // the processes with each token
}

// worker is the state of a worker ID.
type worker struct {
	record record   // its entry; zero if there is none
	saved  record   // the last one saved, also if it was lost
	by     *process // the last process to take the worker ID
	saver  *process // the last process to save the record: by, or a clone
}

func newStore(w *world) *store {
	s := &store{w: w, machine: newMachine(w.Start, w.begun, 0, 0), workers: map[int]*worker{}, holders: map[string][]*process{}}
	if w.OneHost {
		s.machine = w.nodes[0].machine
	}
	if w.OwnClock {
		s.memory.Clock = s.machine
	}
	return s
}

// open makes the store, as its operator does before the first process starts. A process has used and
// released a worker ID, of which nothing is left.
func (s *store) open() error {
	ctx := context.Background()
	l, err := lease.Acquire(ctx, &s.memory, &lease.Options{
		Layout: s.w.Layout, Clock: s.machine, NewStore: true, Window: s.w.Window, Logger: quiet,
	})
	if err != nil {
		return err
	}
	err = l.Release(ctx)
	for _, e := range s.list("") {
		if e.Key != "store" {
			err = errors.Join(err, s.memory.Delete(ctx, e.Key, e.Version))
		}
	}
	return err
}

// worker returns the state of a worker ID. s.mu must be held.
func (s *store) worker(id int) *worker {
	if s.workers[id] == nil {
		s.workers[id] = new(worker)
	}
	return s.workers[id]
}

// of returns a copy of the state of a worker ID.
func (s *store) of(id int) worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.worker(id)
}

// wipe removes entries: all, those of a kind, or one.
func (s *store) wipe(e Event) {
	entries := s.list("")
	if len(entries) == 0 {
		return
	}
	one := entries[e.N%len(entries)].Key
	kind, _, _ := strings.Cut(one, "/")
	for _, entry := range entries {
		if is, _, _ := strings.Cut(entry.Key, "/"); e.N%3 == 0 || e.N%3 == 1 && is == kind || entry.Key == one {
			_ = s.remove(entry.Key, entry.Version)
			s.w.logf("store: %s is gone", entry.Key)
		}
	}
	s.wiped.Store(true)
}

// remove removes an entry.
func (s *store) remove(key, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.memory.Delete(context.Background(), key, version)
	if id, ok := workerOf(key); ok && err == nil {
		s.worker(id).record = record{}
	}
	return err
}

// workerOf returns the worker ID if the key is of a record.
func workerOf(key string) (worker int, ok bool) {
	digits, ok := strings.CutPrefix(key, "worker/")
	if !ok {
		return 0, false
	}
	worker, err := strconv.Atoi(digits)
	return worker, err == nil
}

// get returns an entry, as it is.
func (s *store) get(key string) lease.Entry {
	e, _ := s.memory.Get(context.Background(), key)
	return e
}

// list returns the entries with a prefix, as they are, in order, so that each run does the same.
func (s *store) list(prefix string) []lease.Entry {
	all, _ := s.memory.List(context.Background(), prefix)
	slices.SortFunc(all, func(a, b lease.Entry) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// seen returns an entry as a client sees it. A Lie makes the record of a live holder look old.
func (s *store) seen(e lease.Entry) lease.Entry {
	if id, ok := workerOf(e.Key); ok && s.w.OwnClock && s.of(id).record.State == lease.StateHeld && s.w.chance(s.faults.of(s.w, Lie)) {
		e.Time = e.Time.Add(-time.Hour)
	}
	return e
}

// put is a request to put an entry.
type put struct {
	key, old string
	value    []byte
	record   *record // the decoded value, if the entry is a worker ID's
}

// newPut returns a request.
func (s *store) newPut(key, old string, value []byte) put {
	r := put{key: key, old: old, value: slices.Clone(value)}
	if _, ok := workerOf(key); ok {
		r.record = new(record)
		if err := json.Unmarshal(value, r.record); err != nil {
			s.w.fail("record", "%s cannot be read: %v", key, err)
		}
	}
	return r
}

// put stores an entry, and checks it if it is a record.
func (s *store) put(p *process, is put) (lease.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.memory.Put(context.Background(), is.key, is.old, is.value)
	id, ok := workerOf(is.key)
	if err != nil || !ok {
		return e, err
	}
	is.record.renewed = s.machine.Wall()
	if is.record.State == lease.StateLost { // readers of the watermark save this, too
		s.w.logf("store: %v, by %v", is.record, p)
		s.worker(id).record = *is.record
	} else {
		s.save(p, s.worker(id), is.record)
	}
	return e, nil
}

// save checks and keeps a record. s.mu must be held.
func (s *store) save(p *process, w *worker, r *record) {
	old, was := w.record, w.saved
	w.record, w.saved, w.saver = *r, *r, p
	if time.Since(p.heard) > p.Window {
		p.late = time.Now()
	}
	p.heard = time.Now()
	if s.isStray(&old) {
		old = record{} // no ID is issued under it
	}
	s.checkSave(p, &old, r)
	s.checkToken(p, &was, r)
	if was.Token != r.Token && len(s.holders[r.Token]) == 0 {
		p.took[r.Worker] = true
		w.by = p
	}
	s.isHolder(r.Token, p)
	s.w.logf("store: save %d of %v, clock sequence %d, by %v", r.Saves, r, r.ClockSeq, p)
}

// isStray reports whether r is the first record of a newcomer that read the store before the store
// lost entries. The newcomer reads the store again before it issues IDs. s.mu must be held.
func (s *store) isStray(r *record) bool {
	var door struct{ Name string }
	return s.wiped.Load() && r.Saves == 1 && !r.Marked &&
		(json.Unmarshal(s.get("store").Value, &door) != nil || door.Name != r.Store)
}

// isHolder records that p has a token. s.mu must be held.
func (s *store) isHolder(token string, p *process) {
	if held := s.holders[token]; !slices.Contains(held, p) && (len(held) == 0 || p.isClone || held[0].isClone) {
		s.holders[token] = append(held, p)
	}
}

// sharesAll gives q, a clone of p, all tokens and worker IDs of p.
func (s *store) sharesAll(p, q *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, held := range s.holders {
		if slices.Contains(held, p) {
			s.holders[token] = append(slices.Clone(held), q)
		}
	}
	maps.Copy(q.took, p.took)
}

// proposed returns the watermark in the store, above which new windows begin.
func (w *world) proposed() time.Time {
	var m struct{ Proposed time.Time }
	_ = json.Unmarshal(w.store.get("watermark").Value, &m)
	return m.Proposed
}

// client is a process's connection to the store. It implements lease.Store.
type client struct {
	p *process
}

// answer is the answer to a request.
type answer struct {
	entry   lease.Entry
	entries []lease.Entry
	now     time.Time
	err     error
}

// Now returns the reading of the store's clock, if it has one.
func (c client) Now(ctx context.Context) (time.Time, error) {
	if !c.p.w.OwnClock {
		return time.Time{}, errors.ErrUnsupported
	}
	a := c.call(ctx, "now", func(s *store) answer { return answer{now: s.machine.Wall()} })
	return a.now, a.err
}

// Get returns an entry.
func (c client) Get(ctx context.Context, key string) (lease.Entry, error) {
	a := c.call(ctx, "get "+key, func(s *store) answer { return answer{entry: s.seen(s.get(key))} })
	return a.entry, a.err
}

// List returns the entries with a prefix. The store reads one half of them later than the other.
func (c client) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	a := c.call(ctx, "list "+prefix, func(s *store) (a answer) {
		for half := range 2 {
			for _, e := range s.list(prefix) {
				if int(e.Key[len(e.Key)-1])%2 == half {
					a.entries = append(a.entries, s.seen(e))
				}
			}
			if half == 0 {
				time.Sleep(c.p.w.up(c.p.w.Network))
			}
		}
		return a
	})
	return a.entries, a.err
}

// Put stores an entry.
func (c client) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	is := c.p.w.store.newPut(key, old, value)
	a := c.call(ctx, "put "+key, func(s *store) (a answer) {
		a.entry, a.err = s.put(c.p, is)
		return a
	})
	return a.entry, a.err
}

// Delete removes an entry.
func (c client) Delete(ctx context.Context, key, old string) error {
	return c.call(ctx, "delete "+key, func(s *store) answer { return answer{err: s.remove(key, old)} }).err
}

// call sends a request over the node's network, and waits for the answer until ctx ends.
func (c client) call(ctx context.Context, what string, serve func(*store) answer) answer {
	p, w := c.p, c.p.w
	if err := ctx.Err(); err != nil {
		return answer{err: err}
	}
	p.gate()
	p.crashHere(callPoints[0])
	p.checkRequests(what)
	fault := func(k Kind) int { return p.node.faults.of(w, k) }
	delay := time.Duration(fault(Delay))
	there, back := w.up(w.Network)+w.up(delay), w.up(w.Network)+w.up(delay)
	lost, unanswered, twice := w.chance(fault(LoseRequests)), w.chance(fault(LoseAnswers)), w.chance(fault(Resend))
	again := w.up(w.Window)
	answers := make(chan answer, 2)
	arrive := func(after time.Duration, answered bool) {
		w.after(after, func() {
			a := answer{err: errRefused}
			if w.store.faults.of(w, StoreDown) == 0 {
				a = serve(w.store)
				p.crashAt(callPoints[3])
			} else if (there+back)%2 != 0 {
				return
			}
			if answered && !unanswered {
				time.Sleep(back + 1)
				answers <- a
			}
		})
	}
	if !lost {
		arrive(there, true)
	}
	if twice {
		arrive(there+again, lost)
	}
	if (lost || unanswered) && (there+back)%3 == 0 {
		w.after(there+back, func() { answers <- answer{err: errReset} })
	}
	p.crashHere(callPoints[1])
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	case <-w.done:
		a.err = errDead
	}
	p.gate()
	p.crashHere(callPoints[2])
	if a.err != nil {
		w.logf("%v: %s: %v", p, what, a.err)
	}
	return a
}
