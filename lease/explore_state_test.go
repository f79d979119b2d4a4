//go:build go1.25

package lease

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/localcopy"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// text describes a state, or a part of it. Two states count as the same if they have the same bytes
// and, after the following reduction, the same numbers. Two versions of an entry are only compared,
// and the store counts on from the latest, so a version is reduced to its distance from the latest
// of its entry. The numbers of saves of a worker ID are reduced to their distances from the least
// that is there, if all are 2 or more, because the code compares them with 1.
// TestWhatIsLeftOutChangesNothing checks that.
type text struct {
	bytes   []byte
	numbers []number
}

// number is the version of an entry, or how often a worker ID was saved.
type number struct {
	key    string // of the entry; empty if it is the saves
	worker int
	n      int
}

// put writes values.
func (t *text) put(args ...any) {
	for _, arg := range args {
		switch is := arg.(type) {
		case int:
			t.bytes = binary.AppendVarint(t.bytes, int64(is))
		case bool:
			t.bytes = strconv.AppendBool(t.bytes, is)
		case string:
			t.bytes = append(append(t.bytes, is...), 0)
		case time.Time:
			t.bytes = binary.AppendVarint(t.bytes, is.UnixNano())
		case snowflake.Grant:
			t.put(is.Worker, is.ClockSeq, is.From, is.To)
		case text:
			t.bytes, t.numbers = append(t.bytes, is.bytes...), append(t.numbers, is.numbers...)
		case protocol.Record:
			value, _ := is.Encode()
			t.entry(Entry{Key: book.RecordKey(is.Worker), Version: is.Version, Value: value, Time: is.Renewed})
		case Entry:
			t.entry(is)
		case *query:
			t.put(is.do, is.key)
			t.version(is.key, is.old)
			t.value(is.key, is.value)
		case reply:
			if errors.Is(is.err, ErrConflict) {
				is.err = ErrConflict
			}
			t.put(fmt.Sprint(is.err))
			for _, e := range is.entries {
				t.entry(e)
			}
		default:
			t.bytes = fmt.Appendln(t.bytes, is)
		}
	}
}

// putMap writes a map, in the order of its keys.
func putMap[K comparable, V any](t *text, m map[K]V, compare func(a, b K) int) {
	t.put(len(m))
	for _, key := range slices.SortedFunc(maps.Keys(m), compare) {
		t.put(key, m[key])
	}
}

func (t *text) version(key, version string) {
	if here, ok := strings.CutPrefix(version, fromHere); ok {
		key, version = copyPrefix+key, here
	}
	n, err := strconv.Atoi(version)
	if t.put(err == nil); err == nil {
		t.numbers = append(t.numbers, number{key: key, n: n})
	}
}

func (t *text) entry(e Entry) {
	t.put(e.Key)
	t.version(e.Key, e.Version)
	t.value(e.Key, e.Value)
	// No function reads the times of others.
	if _, ok := book.WorkerOf(book.RecordPrefix, e.Key); ok || e.Key == book.DoorKey {
		t.put(e.Time)
	}
}

// values has the values of entries that were written, without the number of saves.
var values = map[string]text{}

func (t *text) value(key string, value []byte) {
	if key == book.SilenceKey { // unchanged writes it
		return
	}
	of, ok := values[string(value)]
	if !ok {
		of.bytes = value
		if worker, isRecord := book.WorkerOf(book.RecordPrefix, strings.TrimPrefix(key, copyPrefix)); isRecord {
			if r, err := protocol.DecodeRecord(worker, Entry{Version: "1", Value: value}); err == nil {
				of.numbers = []number{{worker: worker, n: int(r.Saves)}}
				r.Saves = 0
				of.bytes, _ = r.Encode()
			}
		}
		values[string(value)] = of
	}
	t.put(of)
}

// state returns a hash of the state, and one that all states that count as the same share.
func (w *world) state() (reduced, exact [16]byte) {
	var t text
	t.put(w.now, int(w.mark), w.faults-w.faulty, min(1, w.spent[lose]), w.spent[older], w.spent[release], w.away)
	for k := crash; k <= older; k++ {
		t.put(w.left(k))
	}
	putMap(&t, w.entries, cmp.Compare)
	var silence book.Silences
	_ = json.Unmarshal(w.entries[book.SilenceKey].Value, &silence)
	w.unchanged(&t, silence)
	for _, a := range w.late {
		t.put(&a.query)
	}
	putMap(&t, w.ids, cmp.Compare)
	for i, p := range w.procs {
		t.put(p.texts(w))
		if !p.begun || p.dead {
			continue
		}
		t.put(i == w.hot, w.mayMove(i) && !p.done)
		if w.readers > 0 {
			t.put(min(w.now-p.heardOf, w.span()+1), min(w.now-p.late, w.span()+1))
		}
		for _, k := range p.tasks {
			if t.put(k.open != nil, int(k.waitsFor())); k.waitsFor() == wake {
				t.put(max(0, k.due-w.now))
			}
		}
		w.sightings(&t, p)
	}
	least := map[int]int{}
	for _, n := range t.numbers {
		if n.key == "" {
			least[n.worker] = min(n.n, cmp.Or(least[n.worker], n.n))
		}
	}
	for _, n := range t.numbers {
		if n.key == "" {
			t.put(n.n - max(0, least[n.worker]-2))
		} else {
			t.put(w.versions[n.key] - n.n)
		}
	}
	if reduced = hash(t.bytes); !w.exact {
		return reduced, exact
	}
	for _, n := range t.numbers {
		t.put(n.n)
	}
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		t.put(w.entries[key].Time)
	}
	t.put(string(w.entries[book.SilenceKey].Value))
	for _, p := range w.procs {
		t.put(p.seen, p.kept, p.shared)
	}
	return reduced, hash(t.bytes)
}

// texts returns what is the same in all worlds with p.
func (p *process) texts(w *world) text {
	if p.text != nil {
		return *p.text
	}
	var t text
	p.text = &t
	t.put(p.name, p.begun, p.dead, p.ending, p.done, p.err != nil)
	if !p.ending {
		putMap(&t, p.windows, compare)
	}
	if p.dead || !p.begun {
		return t
	}
	t.put(p.drawn%w.workers, p.issued, int(p.offset), len(p.signed), slices.Sorted(maps.Keys(p.signed)))
	putMap(&t, p.low, compare)
	putMap(&t, p.saved, compare)
	if p.issued < w.scope.ids {
		t.put(int(p.tried.own), p.tried.grant, int(p.tried.mark), p.tried.ended)
	}
	for _, k := range p.tasks {
		if k.heard != nil {
			t.put(k.made, k.open.key, *k.heard)
		}
	}
	for _, e := range p.gen {
		t.put(int(e.what), int(e.id), e.own, e.thenOwn, e.grant, e.then)
	}
	if p.rested != nil && !(p.done && !p.busy(0)) {
		t.put(*p.rested)
	}
	t.put(p.events)
	return t
}

func compare(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }

// lease writes all that decides what a lease at rest does next.
func (t *text) lease(l *Lease) {
	if c, ok := l.store.(*localcopy.Store); ok {
		is := c.State()
		if t.put(l.o.Owner, is.Active, is.Lost, is.Away != nil); is.Away != nil {
			t.put(is.Asked)
		}
		putMap(t, is.There, cmp.Compare)
	}
	h := <-l.slot
	l.slot <- h
	t.put(h != nil, l.err != nil, l.loss != nil, l.wiped, l.known.last, l.known.inUse)
	if h != nil {
		w := h.Window
		t.put(h.Record, w.From, w.To, w.Before, w.Above, w.Seq, h.Heard.Renewed, h.Heard.Read, h.Passed, h.Lowered)
		t.put(h.Granted, int(h.Doubt), h.Freed, h.Overdue, len(h.Tried))
		for _, r := range h.Tried {
			t.put(r)
		}
	}
	if g := l.grant.Load(); g != nil {
		t.put(g.Grant)
	}
	putMap(t, l.known.lost, cmp.Compare)
}

// sightings writes what a process knows of how long entries are unchanged.
func (w *world) sightings(t *text, p *process) {
	t.put(p.granted == nil && p.shared == w.now)
	for _, key := range slices.Sorted(maps.Keys(p.seen)) {
		if key == readKey { // decides only who is named
			continue
		}
		s := p.seen[key]
		t.put(key)
		ticks := int(w.time().Sub(s.Since) / tick)
		switch _, isRecord := book.WorkerOf(book.RecordPrefix, key); {
		case !isRecord && key != book.SilenceKey: // it is lost
			t.put(s.Version, ticks)
		case w.version(key, s.Version) != s.Version: // it counts from now on
			t.put(-1)
		default:
			t.put(min(ticks, w.span()+1))
		}
	}
	w.unchanged(t, p.kept)
}

// unchanged writes what the entry "silence" says of records that have not changed since.
func (w *world) unchanged(t *text, silence book.Silences) {
	for _, key := range slices.Sorted(maps.Keys(silence.Of)) {
		if of := silence.Of[key]; w.version(key, of.Version) == of.Version {
			t.put(key, min(int(of.Waited.For/tick), w.span()+1))
		}
	}
	t.put("")
}

// note notes what has happened to the process.
func (p *process) note(what ...any) {
	p.events = text{slices.Clip(p.events.bytes), slices.Clip(p.events.numbers)}
	p.events.put(what...)
}

// forget forgets what a search has read, but not since when it waits, and since when it has seen
// entries unchanged.
func (p *process) forget() {
	p.events = text{}
	p.events.put(p.since, p.listed, p.searching)
}

// settle forgets how the process came to be at rest.
func (p *process) settle() {
	if p.atRest() || (p.done || p.err != nil) && !p.busy(keeper) {
		p.events = text{}
	}
}
