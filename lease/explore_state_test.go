//go:build go1.25

package lease

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// This file says when two states are the same: if they have the same text, and the same numbers in
// it. Two versions of an entry are only compared, and the store counts on from the latest. So the
// numbers are by how much a version is behind the latest of its entry, and by how much a number of
// saves is above the least of its worker ID that is there; if all are 2 or more, because the code
// compares them with 1. TestStatesThatAreTakenForTheSameHaveTheSameFuture checks that.

// text is a text, and the numbers in it.
type text struct {
	text    []byte
	numbers []number
}

// number is a version of an entry, or how often a worker ID was saved.
type number struct {
	key    string // of the entry; empty if it is the saves
	worker int
	n      int
}

func (t *text) print(args ...any) { t.text = fmt.Appendln(t.text, args...) }

func (t *text) int(n int) { t.text = binary.AppendVarint(t.text, int64(n)) }

func (t *text) bool(is bool) {
	n := 0
	if is {
		n = 1
	}
	t.int(n)
}

func (t *text) time(at time.Time) {
	if at.IsZero() {
		t.int(-1)
	} else {
		t.int(int(at.UnixNano()))
	}
}

func (t *text) add(other text) {
	t.text, t.numbers = append(t.text, other.text...), append(t.numbers, other.numbers...)
}

func (t *text) version(key, version string) {
	if here, ok := strings.CutPrefix(version, fromHere); ok {
		key, version = copyPrefix+key, here
	}
	n, err := strconv.Atoi(version)
	if t.bool(err == nil); err == nil {
		t.numbers = append(t.numbers, number{key: key, n: n})
	}
}

func (t *text) entry(e Entry) {
	t.print(e.Key)
	t.version(e.Key, e.Version)
	t.value(e.Key, e.Value)
	// No function reads the times of others.
	if _, ok := book.WorkerOf(book.RecordPrefix, e.Key); ok || e.Key == book.DoorKey {
		t.time(e.Time)
	}
}

// values are the values of entries that were seen, without the number of saves.
var values = map[string]text{}

func (t *text) value(key string, value []byte) {
	if key == book.SilenceKey { // silence does more
		return
	}
	of, ok := values[string(value)]
	if !ok {
		of.text = value
		if worker, isRecord := book.WorkerOf(book.RecordPrefix, strings.TrimPrefix(key, copyPrefix)); isRecord {
			if r, err := protocol.DecodeRecord(worker, Entry{Version: "1", Value: value}); err == nil {
				of.numbers = []number{{worker: worker, n: int(r.Saves)}}
				r.Saves = 0
				of.text, _ = r.Encode()
			}
		}
		values[string(value)] = of
	}
	t.add(of)
}

func (t *text) record(r protocol.Record) {
	t.numbers = append(t.numbers, number{worker: r.Worker, n: int(r.Saves)})
	t.version(book.RecordKey(r.Worker), r.Version)
	t.time(r.Renewed)
	r.Saves = 0
	value, _ := r.Encode()
	t.text = append(t.text, value...)
}

func (t *text) query(q *query) {
	t.print(q.do, q.key)
	t.version(q.key, q.old)
	t.value(q.key, q.value)
}

// reply writes the reply to q.
func (t *text) reply(q *query, r reply) {
	if t.print(q.key); r.err != nil {
		if errors.Is(r.err, ErrConflict) {
			t.print("conflict")
		} else {
			t.print(r.err)
		}
	}
	for _, e := range r.entries {
		t.entry(e)
	}
}

// state returns what stands for a state, and for all states that are taken for the same.
func (w *world) state() (reduced, exact [16]byte) {
	var t text
	for _, n := range []int{w.now, int(w.mark), w.faults - w.faulty, w.left(pause, w.pauses), w.left(delay, w.delays), w.left(fail, w.fails), w.left(crash, w.crashes),
		w.left(forward, w.sets), w.left(lose, w.losses), w.left(garble, w.garbles), min(1, w.spent[lose]), w.spent[release]} {
		t.int(n)
	}
	w.copyState(&t)
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		t.entry(w.entries[key])
	}
	w.silenced(&t, decodeSilence(w.entries[book.SilenceKey]))
	for _, a := range w.late {
		t.query(&a.query)
	}
	for _, id := range slices.Sorted(maps.Keys(w.ids)) {
		t.int(int(id))
		t.print(w.ids[id])
	}
	for i, p := range w.procs {
		t.add(p.texts(w))
		if !p.begun || p.dead {
			continue
		}
		t.bool(i == w.hot)
		t.bool(w.mayMove(i) && !p.done)
		if w.readers > 0 {
			t.int(min(w.now-p.heardOf, w.span()+1))
			t.int(min(w.now-p.late, w.span()+1))
		}
		for _, k := range p.tasks {
			t.bool(k.open != nil)
			if k.rests() {
				t.int(max(0, k.due-w.now))
			}
		}
		w.sights(&t, p)
	}
	least := map[int]int{}
	for _, n := range t.numbers {
		if n.key == "" {
			least[n.worker] = min(n.n, cmp.Or(least[n.worker], n.n))
		}
	}
	for _, n := range t.numbers {
		if n.key == "" {
			t.int(n.n - max(0, least[n.worker]-2))
		} else {
			t.int(w.versions[n.key] - n.n)
		}
	}
	if reduced = hash(t.text); !w.exact {
		return reduced, exact
	}
	for _, n := range t.numbers {
		t.int(n.n)
	}
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		t.time(w.entries[key].Time)
	}
	t.print(string(w.entries[book.SilenceKey].Value))
	for _, p := range w.procs {
		t.print(p.sees.watch, p.shared)
	}
	return reduced, hash(t.text)
}

func hash(text []byte) [16]byte {
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16])
}

// left returns how many faults of a kind may still happen.
func (w *world) left(k kind, most int) int { return min(most-w.spent[k], w.faults-w.faulty) }

// texts returns what is the same in all worlds with p.
func (p *process) texts(w *world) text {
	if p.text != nil {
		return *p.text
	}
	var t text
	p.text = &t
	t.print(p.name, p.begun, p.dead, p.ending, p.done, p.err != nil)
	if !p.ending {
		t.print(len(p.windows))
		for _, of := range slices.SortedFunc(maps.Keys(p.windows), compare) {
			g := p.windows[of]
			t.print(of)
			t.time(g.From)
			t.time(g.To)
		}
	}
	if p.dead || !p.begun {
		return t
	}
	t.print(p.sees.drawn%w.workers, p.issued, p.offset, slices.Sorted(maps.Keys(p.signed)))
	for _, of := range []map[[2]int]time.Time{p.low, p.saved} {
		t.print(len(of))
		for _, key := range slices.SortedFunc(maps.Keys(of), compare) {
			t.print(key)
			t.time(of[key])
		}
	}
	if p.issued < w.scope.ids {
		t.print(p.tried.own, p.tried.grant.Worker, p.tried.grant.ClockSeq, p.tried.grant.From.UnixNano(), p.tried.grant.To.UnixNano(), p.tried.mark, p.tried.ended)
	}
	for _, k := range p.tasks {
		if k.heard != nil {
			t.print(k.made)
			t.reply(k.open, *k.heard)
		}
	}
	for _, e := range p.gen {
		t.print(e.what, e.id)
		for _, at := range []time.Time{e.own, e.thenOwn, e.grant.From, e.grant.To, e.then.From, e.then.To} {
			t.time(at)
		}
		t.print(e.grant.Worker, e.grant.ClockSeq, e.then.ClockSeq)
	}
	if p.lease != nil && !(p.done && !p.busy(0)) {
		t.lease(p.lease)
	}
	t.add(p.events)
	return t
}

func compare(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }

// lease writes all that decides what a lease at rest does next.
func (t *text) lease(l *Lease) {
	h := <-l.slot
	l.slot <- h
	t.localCopy(l)
	t.print(h != nil, l.err != nil, l.loss != nil, l.wiped, l.known.last, l.known.inUse)
	if h != nil {
		t.record(h.Own)
		w := h.Window
		for _, at := range []time.Time{w.From, w.To, w.Before, w.Above, h.Heard.Renewed, h.Heard.Read, h.Passed, h.Lowered} {
			t.time(at)
		}
		t.print(w.Seq, h.Granted, h.Doubt, h.Freed, h.Overdue, len(h.Tried))
		for _, r := range h.Tried {
			t.record(r)
		}
	}
	if g := l.grant.Load(); g != nil {
		t.print(g.Worker, g.ClockSeq)
		t.time(g.From)
		t.time(g.To)
	}
	for _, worker := range slices.Sorted(maps.Keys(l.known.lost)) {
		t.record(l.known.lost[worker])
	}
}

// sights writes what a process knows of how long entries have not changed.
func (w *world) sights(t *text, p *process) {
	is := p.sees.watch
	t.bool(p.sees.grant == nil && p.shared == w.now)
	seen := is.Seen.Clone().Of
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if key == readKey {
			continue // decides only who is named
		}
		s := seen[key]
		t.print(key)
		ticks := int(w.time().Sub(s.Since) / tick)
		switch _, isRecord := book.WorkerOf(book.RecordPrefix, key); {
		case !isRecord && key != book.SilenceKey: // it is lost
			t.print(s.Version, ticks)
		case w.version(key, s.Version) != s.Version: // it counts from now on
			t.int(-1)
		default:
			t.int(min(ticks, w.span()+1))
		}
	}
	w.silenced(t, is.Kept.Of)
}

// silenced writes what the entry "silence" says of records that have not changed since.
func (w *world) silenced(t *text, of map[string]book.Unchanged) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if w.version(key, of[key].Version) == of[key].Version {
			t.print(key, min(int(of[key].Waited.For/tick), w.span()+1))
		}
	}
	t.print()
}

func decodeSilence(e Entry) map[string]book.Unchanged {
	var of book.Silence
	_ = json.Unmarshal(e.Value, &of)
	return of.Of
}

// note notes what has happened to the process, and when.
func (p *process) note(w *world, what string, task int) {
	p.events = text{slices.Clip(p.events.text), slices.Clip(p.events.numbers)}
	p.events.print(w.now, int(p.offset/tick), what, task)
}

// forget forgets what a search has read, but not since when it has seen entries unchanged.
func (p *process) forget() {
	p.events = text{}
	p.events.print(p.since, p.listed)
}

// settle forgets how the process came to be at rest.
func (p *process) settle() {
	if p.atRest() && !p.busy(caller) || (p.done || p.err != nil) && !p.busy(keeper) {
		p.events = text{}
	}
}
