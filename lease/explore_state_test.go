//go:build go1.25

package lease

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// This file says when two states are the same: if they have the same text. In reduced, some texts become the same
// that differ in nothing that matters. TestStatesThatAreTakenForTheSameHaveTheSameFuture checks that.

// state returns a text of all that decides the future.
func (w *world) state() string {
	var b strings.Builder
	fmt.Fprintln(&b, w.now, w.mark, w.faults-w.faulty, w.left(pause, w.pauses), w.left(delay, w.delays), w.left(fail, w.fails), w.left(dies, w.crashes),
		w.left(forward, w.sets), w.left(lose, w.losses), w.left(garble, w.garbles), w.spent[lose] > 0, w.spent[release])
	for _, key := range slices.Sorted(maps.Keys(w.store.entries)) {
		write(&b, w.store.entries[key])
	}
	w.writeSilence(&b, decodeSilence(w.store.entries[silenceKey]))
	for _, r := range w.late {
		fmt.Fprintln(&b, r)
	}
	for _, id := range slices.Sorted(maps.Keys(w.ids)) {
		fmt.Fprintln(&b, id, w.ids[id].name)
	}
	for i, p := range w.procs {
		w.stateOf(&b, i, p)
	}
	return b.String()
}

// left returns how many faults of a kind may still happen.
func (w *world) left(k kind, most int) int { return min(most-w.spent[k], w.faults-w.faulty) }

func (w *world) stateOf(b *strings.Builder, i int, p *process) {
	fmt.Fprintln(b, p.name, p.begun, p.dead, p.ending, p.done, p.err != nil)
	if !p.ending {
		fmt.Fprintln(b, p.windows)
	}
	if p.dead || !p.begun {
		return
	}
	fmt.Fprintln(b, p == w.hot, w.mayMove(i) && !p.done, p.draws%w.workers, p.issued, p.offset, p.silent(), p.signed, p.low, p.saved)
	if p.issued < w.scope.ids {
		fmt.Fprintln(b, p.tried)
	}
	for _, r := range p.heard {
		fmt.Fprintln(b, "heard", r.key, r.answer(), r.made)
	}
	for _, n := range p.naps {
		fmt.Fprintln(b, max(0, n.due-w.now))
	}
	w.writeSights(b, p)
	p.settle()
	b.WriteString(p.events.String())
}

// writeSights writes what a process knows of how long entries have not changed.
func (w *world) writeSights(b *strings.Builder, p *process) {
	sights, kept := p.sights, p.kept
	if p.lease != nil {
		sights, kept = map[string]sight{}, p.lease.kept.Of
		for key, s := range p.lease.seen {
			sights[key] = sight{s.version, w.now - int(time.Since(s.since)/tick)}
		}
	} else {
		fmt.Fprint(b, p.shared == w.now)
	}
	for _, key := range slices.Sorted(maps.Keys(sights)) {
		if w.entryOf(key).Version != sights[key].version { // it counts from now on
			fmt.Fprint(b, key, "changed ")
		} else {
			fmt.Fprint(b, key, min(w.now-sights[key].since, w.span()+1), " ")
		}
	}
	w.writeSilence(b, kept)
}

// sights returns all that writeSights and writeSilence leave out.
func (w *world) sights() string {
	var b strings.Builder
	b.Write(w.entryOf(silenceKey).Value)
	for _, p := range w.procs {
		if p.lease != nil {
			dump(&b, reflect.ValueOf(p.lease.watch))
		}
		fmt.Fprintln(&b, p.sights, p.kept, p.shared)
	}
	return b.String()
}

// writeSilence writes what the entry "silence" says of records that have not changed since.
func (w *world) writeSilence(b *strings.Builder, of map[string]unchanged) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if w.entryOf(key).Version == of[key].Version {
			fmt.Fprint(b, key, min(int(of[key].Waited.For/tick), w.span()+1), " ")
		}
	}
	b.WriteByte('\n')
}

func (w *world) entryOf(key string) Entry { return w.store.entries[key] }

func decodeSilence(e Entry) map[string]unchanged {
	var of silence
	_ = json.Unmarshal(e.Value, &of)
	return of.Of
}

// silent says for how many ticks nothing was saved by p, and for how many no save came late, as far as the watermark cares.
func (p *process) silent() (ticks [2]int) {
	if w := p.w; w.readers > 0 {
		since := func(then int) int { return min(w.now-then, w.span()+1) }
		ticks = [2]int{since(p.heardOf), since(p.late)}
	}
	return ticks
}

// hash returns what stands for a state.
func hash(text string) (key [16]byte) {
	sum := sha256.Sum256([]byte(text))
	return [16]byte(sum[:16])
}

// The marks of reduced.
const (
	versionMark = "\x01" // before the key and the number of a version,
	unusedMark  = "\x03" // and before a time that no function reads
	endMark     = "\x02" // after each of them
	savesMark   = `{"worker":`
)

// reduced returns a text that is the same for states that differ only in
//
//   - by how much the versions of an entry are shifted. The code asks only if two versions of an entry are equal, and the
//     store counts on from the latest version. So after the same steps, the states still differ by this only.
//   - by how much the numbers of saves of a worker ID are shifted, if they all are 2 or more. The code compares them with each
//     other and with 1, and counts on from the greater of two. It compares them only if one record was made from the other.
//   - the times when the entries of owners, marks and the watermark were stored. No function reads them.
func (w *world) reduced(text string) string {
	least := map[string]int{} // by worker ID, the lowest number of saves
	saves := func(rest string) (worker string, n int, end int, ok bool) {
		worker, rest, _ = strings.Cut(rest, ",")
		digits, isRecord := strings.CutPrefix(rest, `"saves":`)
		digits, _, _ = strings.Cut(digits, ",")
		n, err := strconv.Atoi(digits)
		return worker, n, len(worker) + len(`,"saves":`) + len(digits), isRecord && err == nil
	}
	for rest := text; ; {
		at := strings.Index(rest, savesMark)
		if at < 0 {
			break
		}
		rest = rest[at+len(savesMark):]
		if worker, n, _, ok := saves(rest); ok {
			least[worker] = min(n, cmp.Or(least[worker], n))
		}
	}
	var b strings.Builder
	for rest := text; ; {
		at := strings.IndexAny(rest, versionMark+unusedMark+"{")
		if at < 0 {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:at])
		rest = rest[at:]
		if strings.HasPrefix(rest, "{") {
			end := 1
			if record, ok := strings.CutPrefix(rest, savesMark); ok {
				if worker, n, length, ok := saves(record); ok {
					fmt.Fprint(&b, worker, "saves", n-max(0, least[worker]-2))
					end = len(savesMark) + length
				}
			}
			if end == 1 {
				b.WriteByte('{')
			}
			rest = rest[end:]
			continue
		}
		marked, after, _ := strings.Cut(rest[1:], endMark)
		if rest[:1] == versionMark {
			key, version, _ := strings.Cut(marked, " ")
			n, _ := strconv.Atoi(version)
			b.WriteString(strconv.Itoa(w.store.versions[key] - n))
		}
		rest = after
	}
}

// version writes a version of an entry.
func version(b *strings.Builder, key, version string) {
	if version != "" {
		b.WriteString(versionMark + key + " " + version + endMark)
	}
}

func write(b *strings.Builder, e Entry) {
	b.WriteString(e.Key)
	b.WriteByte(' ')
	version(b, e.Key, e.Version)
	if e.Key != silenceKey { // writeSilence does more
		b.Write(e.Value)
	}
	b.WriteByte(' ')
	stored := strconv.FormatInt(e.Time.Unix(), 36)
	if !strings.HasPrefix(e.Key, recordPrefix) && e.Key != doorKey {
		stored = unusedMark + stored + endMark
	}
	b.WriteString(stored)
	b.WriteByte('\n')
}

// note keeps what has happened to the process, and when.
func (p *process) note(what string) {
	b := &p.events
	b.WriteString(strconv.Itoa(p.w.now))
	b.WriteByte(' ')
	b.WriteString(strconv.Itoa(int(p.offset / tick)))
	b.WriteByte(' ')
	b.WriteString(what)
	b.WriteByte('\n')
}

// answer returns what the store says.
func (r *asked) answer() string {
	if errors.Is(r.err, ErrConflict) {
		return "conflict " + r.key
	}
	if r.err != nil {
		return r.err.Error()
	}
	var b strings.Builder
	for _, e := range r.entries {
		write(&b, e)
	}
	return b.String()
}

// forget forgets what a search has read, but not since when it has seen entries unchanged.
func (p *process) forget() {
	p.events.Reset()
	fmt.Fprintln(&p.events, p.since, p.listed)
}

// sees notes which versions a process has seen, as watch does.
func (p *process) sees(r *asked) {
	for _, e := range r.entries {
		key := e.Key
		if r.do == "get" {
			key = r.key // also of no entry
		}
		if was, ok := p.sights[key]; !ok || was.version != e.Version {
			p.sights[key] = sight{e.Version, p.w.now}
		}
		if key == silenceKey {
			p.shared, p.kept = p.w.now, decodeSilence(e)
		}
	}
}

type sight struct {
	version string
	since   int
}

// atRest reports whether the process only waits for its next renewal.
func (p *process) atRest() bool {
	return p.gen != nil && !p.calling && !p.ending && len(p.parked)+len(p.heard) == 0 && len(p.naps) == 1 && len(p.lease.slot) == 1 && p.lease.trouble() == nil
}

// hold returns the hold of a process, also while a call has taken it out.
func (p *process) hold() *hold {
	select {
	case h := <-p.lease.slot:
		p.lease.slot <- h
		if h != nil {
			p.held = h
		}
	default:
	}
	return p.held
}

// doubts reports whether a process has to read its record before it saves.
func (p *process) doubts() bool {
	if p.lease == nil {
		return false
	}
	h := p.hold() // nil if a call took it out as soon as it was there: then it is new
	return h != nil && h.doubt != sure
}

// settle forgets how the process came to be at rest.
func (p *process) settle() {
	if (p.done || p.err != nil) && !p.calling && len(p.parked)+len(p.heard)+len(p.naps) == 0 {
		p.events.Reset()
	}
	if p.atRest() {
		p.events.Reset()
		dump(&p.events, reflect.ValueOf(p.lease).Elem())
		dump(&p.events, reflect.ValueOf(p.hold()).Elem())
		dump(&p.events, reflect.ValueOf(p.gen).Elem())
	}
}

// aside are the fields on which no later step depends.
var aside = []string{"Lease.store", "Lease.o", "Lease.log", "standing.bound", "standing.stats", "standing.failing", "standing.cause", "standing.caused",
	"known.horizon", "known.watch", "known.passed", "hold.rules", "hold.horizon", "heard.at",
	"Generator.counts", "Generator.wall", "Generator.clock", "Generator.refused", "Generator.policy", "Generator.fresh", "sequence.layout", "sequence.taken",
	"window.lease", "window.terms", "slots.waits", "slots.waited", "sequence.era"}

// dump writes v so that equal texts mean equal values.
func dump(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int8, reflect.Int16:
		b.WriteString(strconv.FormatInt(v.Int(), 36))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		b.WriteString(strconv.FormatUint(v.Uint(), 36))
	case reflect.String:
		b.WriteString(v.String())
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem() != reflect.TypeFor[time.Location]() {
			b.WriteByte('&')
			dump(b, v.Elem())
		}
	case reflect.Interface:
		fmt.Fprint(b, !v.IsNil())
	case reflect.Slice, reflect.Array:
		b.WriteByte('[')
		for i := range v.Len() {
			dump(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.Map:
		dumpMap(b, v)
	case reflect.Struct:
		dumpStruct(b, v)
	}
	b.WriteByte(' ')
}

func dumpMap(b *strings.Builder, v reflect.Value) {
	var all []string
	for it := v.MapRange(); it.Next(); {
		var one strings.Builder
		dump(&one, it.Key())
		one.WriteByte(':')
		if v.Type() == reflect.TypeFor[sightings]() {
			version(&one, it.Key().String(), it.Value().Field(0).String())
			dump(&one, it.Value().Field(1))
		} else {
			dump(&one, it.Value())
		}
		all = append(all, one.String())
	}
	slices.Sort(all)
	fmt.Fprint(b, all)
}

func dumpStruct(b *strings.Builder, v reflect.Value) {
	if v.CanAddr() {
		switch p := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(type) {
		case *atomic.Pointer[record]:
			dump(b, reflect.ValueOf(p.Load()))
			return
		case *atomic.Pointer[granted]:
			dump(b, reflect.ValueOf(p.Load()))
			return
		case *atomic.Pointer[time.Time]:
			dump(b, reflect.ValueOf(p.Load()))
			return
		case *atomic.Bool:
			fmt.Fprint(b, p.Load())
			return
		case *record:
			dumpRecord(b, *p)
			return
		}
	}
	b.WriteByte('{')
	for _, i := range dumped(v.Type()) {
		dump(b, v.Field(i))
	}
	b.WriteByte('}')
}

func dumpRecord(b *strings.Builder, r record) {
	value, _ := r.encode()
	b.Write(value)
	version(b, recordKey(r.Worker), r.version)
	dump(b, reflect.ValueOf(r.Renewed))
}

var dumpedFields = map[reflect.Type][]int{}

// dumped returns the fields that dump writes.
func dumped(t reflect.Type) []int {
	fields, ok := dumpedFields[t]
	if !ok && t.PkgPath() != "sync" && t.PkgPath() != "sync/atomic" {
		for i := range t.NumField() {
			if !slices.Contains(aside, t.Name()+"."+t.Field(i).Name) {
				fields = append(fields, i)
			}
		}
	}
	dumpedFields[t] = fields
	return fields
}
