package lease

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
)

// This file tells every story of a small world, and looks for a story in which the invariants of doc.go are
// broken. The code is the real code: Acquire, the goroutine that renews, Release, Watermark and the generator.
// The world around it does one step at a time: the store makes a request, a process gets an answer or an error,
// a rest ends, a clock is set, a process crashes, a tick passes. Each story is told from its beginning, in a
// bubble of its own. Two stories that lead to the same state have the same future, so only one is continued.
//
// A state is the time, the entries, the requests under way, what was issued and, for each process, its lease and
// its generator as they were when it last only waited for its next renewal, and all that it has heard since.
//
// What is left out, and why it loses nothing:
//
//   - A step that no other process notices (a call, a crash, a step of a clock, the beginning of a renewal that
//     first saves) comes directly after the last step of its process, after a tick, after a
//     watermark was returned, or after such a step of an earlier process: it would have the same effect there.
//   - A request is made at once if nobody in the scope changes its entry in a way that matters: the entry of an
//     owner, the marks and the entry "store" if no entries are lost, and the watermark if nobody reads it.
//   - A process that searches and rests forgets what it has read, because the store's clock says who is dead (search.wait).
//
// What is left out, and may lose something: clocks and windows are whole ticks and half a tick; a process stops
// between two requests of which the second is a read at most so often as the scope says; a rest ends in the
// tick in which it is due, or later, but a search rests for a tick at least; and the number of ticks, faults, processes and IDs is small.

// tick is the unit of the layout, of the clocks' steps and of the windows.
const tick = time.Minute

// scope says what may happen in the stories.
type scope struct {
	name      string
	workers   int   // worker IDs
	seqBits   uint8 // of the clock sequence
	processes int   // that ask for a worker ID; two are up at once
	readers   int   // processes that read the watermark
	held      bool  // the first process has a worker ID when the story begins
	ticks     int
	releases  int
	ids       int // that a process issues

	faults  int // of all kinds in one story, and of each kind:
	crashes int
	pauses  int // before a read
	delays  int // answers that come in a later tick
	fails   int // requests that fail; if they are writes, they may be made later all the same
	sets    int // steps of a clock, each by so many ticks:
	by      int
	losses  int // of the entries
}

// kind is a kind of steps.
type kind uint8

const (
	begin   kind = iota // a process asks for a worker ID, or reads the watermark
	answer              // the store makes a request, and the process gets the answer
	delay               // the store makes a request
	hear                // the process gets its answer
	fail                // the process gets an error
	arrive              // the store makes a request that failed, or whose process has crashed
	wake                // a rest ends
	issue               // a call of NextID begins
	release             // a call of Release begins
	dies                // a process is gone
	forward             // a clock is set
	backward
	pass  // time passes
	lose  // the store loses entries
	pause // a process is stopped before it reads
	kinds
)

// step is one step of a story, of process p.
type step struct {
	kind kind
	p, n int8
}

// world is what a story is about.
type world struct {
	scope
	mu      sync.Mutex
	now     int
	began   time.Time
	entries map[string]Entry
	puts    map[string]int
	procs   []*process
	late    []*query
	running *process
	hot     *process // it reads next
	order   int      // the processes from it on may make a step of their own now, and the process that moved last:
	mover   int
	over    bool
	spent   [kinds]int
	faulty  int
	ids     map[snowflake.ID]*process
	mark    snowflake.ID // the watermark
	broken  string
	words   []string
	telling bool
}

type process struct {
	w       *world
	name    string
	offset  time.Duration
	parked  []*query // not made yet
	heard   []*query // made, and not answered yet
	naps    []*rest
	tokens  int
	draws   int
	views   bool // it reads the watermark, and holds nothing
	heardOf int  // when it was saved last,
	late    int  // and when a save came late; -1 if never
	lease   *Lease
	gen     *snowflake.Generator
	err     error
	begun   bool
	calling bool
	ending  bool // Release was called
	done    bool // Release has returned
	dead    bool
	tried   string // what the last call saw
	issued  int
	put     bool // it has sent a save
	listed  bool
	since   int
	last    snowflake.ID
	windows map[[2]int]snowflake.Grant // by worker ID and clock sequence, as they were granted last
	token   string                     // in its record
	low     map[[2]int]time.Time       // the bounds that it found,
	saved   map[[2]int]time.Time       // and the latest that it saved
	events  strings.Builder
}

type rest struct {
	over chan time.Time
	due  int
}

// request is a request to the store.
type query struct {
	p        *process
	do, key  string
	old      string
	value    []byte
	made     int
	entries  []Entry
	err      error
	answered chan struct{}
}

func (r *query) String() string {
	return r.do + " " + r.key + " " + r.old + " " + string(r.value)
}

func (r *query) writes() bool { return r.do == "put" || r.do == "delete" }

// access is the store as a process sees it.
type access struct{ p *process }

func (a access) Get(ctx context.Context, key string) (Entry, error) {
	found, err := a.ask(&query{do: "get", key: key})
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

func (a access) List(ctx context.Context, prefix string) ([]Entry, error) {
	return a.ask(&query{do: "list", key: prefix})
}

func (a access) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	found, err := a.ask(&query{do: "put", key: key, old: old, value: slices.Clone(value)})
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

func (a access) Delete(ctx context.Context, key, old string) error {
	_, err := a.ask(&query{do: "delete", key: key, old: old})
	return err
}

func (a access) Now(context.Context) (time.Time, error) {
	return time.Now(), nil
}

func (a access) ask(r *query) ([]Entry, error) {
	w := a.p.w
	r.p, r.answered = a.p, make(chan struct{})
	w.mu.Lock()
	if w.over || a.p.dead {
		w.mu.Unlock()
		runtime.Goexit()
	}
	if w.calm(r.key) {
		defer w.mu.Unlock()
		w.make(r)
		return r.entries, r.err
	}
	a.p.put = a.p.put || r.writes()
	a.p.listed = a.p.listed || r.do == "list"
	a.p.parked = append(a.p.parked, r)
	slices.SortFunc(a.p.parked, func(x, y *query) int { return strings.Compare(x.String(), y.String()) })
	w.mu.Unlock()
	<-r.answered
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || a.p.dead {
		runtime.Goexit()
	}
	a.p.note(r.answer())
	return r.entries, r.err
}

// calm reports whether no process of the scope changes the entry in a way that others notice.
func (w *world) calm(key string) bool {
	switch {
	case strings.HasPrefix(key, ownerPrefix):
		return true
	case key == doorKey:
		return w.losses == 0 && w.readers == 0
	case strings.HasPrefix(key, markPrefix):
		return w.losses == 0
	case key == watermarkKey:
		return w.readers == 0
	}
	return false
}

// make lets the store do what r asks for.
func (w *world) make(r *query) {
	r.made = w.now + 1
	is := w.entries[r.key]
	switch r.do {
	case "get":
		r.entries = []Entry{is}
	case "list":
		for _, key := range slices.Sorted(maps.Keys(w.entries)) {
			if strings.HasPrefix(key, r.key) {
				r.entries = append(r.entries, w.entries[key])
			}
		}
	default:
		if is.Version != r.old {
			r.err = fmt.Errorf("%w: %s", ErrConflict, r.key)
			return
		}
		delete(w.entries, r.key)
		if r.do == "put" {
			w.saves(r, is)
			w.puts[r.key]++
			if strings.HasPrefix(r.key, recordPrefix) {
				if w.now-r.p.heardOf > 1 && r.p.lease != nil {
					r.p.late = w.now
				}
				r.p.heardOf = w.now
			}
			e := Entry{Key: r.key, Version: fmt.Sprint(w.puts[r.key]), Value: r.value, Time: time.Now()}
			w.entries[r.key] = e
			r.entries = []Entry{e}
		}
	}
}

// saves checks what a record that is stored says, in place of was: lines 3 and 5 of the proof in doc.go.
func (w *world) saves(r *query, was Entry) {
	worker, ok := workerOf(recordPrefix, r.key)
	if !ok {
		return
	}
	old, _ := decodeRecord(worker, was)
	rec, _ := decodeRecord(worker, Entry{Version: "new", Value: r.value})
	back := old.Token != rec.Token && rec.Token == r.p.token // it is put back, in place of a stray record or of none
	if rec.State != Held || back {
		return
	}
	taken := rec.Token != r.p.token
	r.p.token = rec.Token
	for c := range 1 << w.seqBits {
		of := [2]int{worker, c}
		r.p.saved[of] = later(r.p.saved[of], rec.bound(c))
		if rec.bound(c).Before(old.bound(c)) {
			w.breaks("the bound of worker ID %d and clock sequence %d goes back from %s to %s", worker, c, w.at(old.bound(c)), w.at(rec.bound(c)))
		}
		if old.State == Held || old.State == Free {
			if c == rec.ClockSeq && (taken || old.ClockSeq != c) {
				r.p.low[of] = old.bound(c)
			}
		}
	}
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
func (r *query) answer() string {
	if r.err != nil {
		return r.err.Error()
	}
	var b strings.Builder
	for _, e := range r.entries {
		write(&b, e)
	}
	return b.String()
}

func write(b *strings.Builder, e Entry) {
	b.WriteString(e.Key)
	b.WriteByte(' ')
	b.WriteString(e.Version)
	b.WriteByte(' ')
	b.Write(e.Value)
	b.WriteByte(' ')
	b.WriteString(strconv.FormatInt(e.Time.Unix(), 36))
	b.WriteByte('\n')
}

// idle reports whether the process only looks for a worker ID.
func (p *process) idle() bool { return p.lease == nil && !p.put }

func (p *process) forget() {
	p.events.Reset()
	fmt.Fprint(&p.events, p.since, p.listed)
}

// newTimer is the timer of a rest of the running process. It fires when the story says so.
func (w *world) newTimer(d time.Duration) *time.Timer {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.running
	if w.over || p == nil || p.dead {
		if p == nil && !w.over {
			panic("a process rests on its own")
		}
		runtime.Goexit()
	}
	if p.idle() { // what a search has read is forgotten when it rests
		p.forget()
	}
	due := w.now
	if d > span1/6 || p.lease == nil || p.lease.trouble() != nil {
		due += max(1, int((d+tick-1)/tick))
	}
	n := &rest{over: make(chan time.Time, 1), due: due}
	p.naps = append(p.naps, n)
	timer := time.NewTimer(1e6 * time.Hour)
	timer.C = n.over
	return timer
}

const span1 = tick

// healed is how many ticks after a loss no window under a lost record is open any more.
const healed = 4

// dice chooses each worker ID in turn. It makes no rest shorter.
func (w *world) dice(n int64) int64 {
	if p := w.running; n == int64(w.workers) && n > 1 && p != nil {
		p.draws++
		return int64(p.draws) % n
	}
	return 0
}

func (w *world) randomText() string {
	w.running.tokens++
	return fmt.Sprint(w.running.name, w.running.tokens)
}

// layout of the IDs.
func (s *scope) layout() snowflake.Layout {
	bits := uint8(0)
	for 1<<bits < s.workers {
		bits++
	}
	return snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: tick, TimeBits: 40, WorkerBits: bits, ClockSeqBits: s.seqBits, SequenceBits: 4}
}

func (p *process) now() time.Time { return time.Now().Add(p.offset) }

// acquire begins the process.
func (p *process) acquire() {
	w := p.w
	p.begun, p.since = true, w.now
	o := &Options{Layout: w.layout(), Owner: p.name[:1], Window: span1, Count: w.workers, Clock: snowflake.ClockFunc(p.now), MaxLeap: 1000 * time.Hour}
	go func() {
		l, err := Acquire(context.Background(), access{p}, o)
		w.mu.Lock()
		p.lease, p.err = l, err
		w.mu.Unlock()
		if err != nil {
			return
		}
		policy := snowflake.FailPolicy()
		if w.seqBits > 0 {
			policy = snowflake.ClockSeqPolicy()
		}
		p.gen, err = snowflake.NewLeased(hasty{l}, &snowflake.Options{OnBackward: policy})
		if err != nil {
			panic(err)
		}
	}()
}

// hasty is a lease whose generator does not wait for more than it has.
type hasty struct{ *Lease }

var errHasty = errors.New("not now")

func (h hasty) Terms() (t contract.Terms[snowflake.Layout, snowflake.Clock, snowflake.Grant]) {
	t = h.Lease.Terms()
	t.Extend = func(context.Context, snowflake.Grant, time.Time) error { return errHasty }
	return t
}

// soon is a context that ends soon, and does not say so when it has.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// view reads the watermark.
func (p *process) view() {
	w := p.w
	p.begun = true
	go func() {
		id, err := Watermark(context.Background(), access{p})
		w.mu.Lock()
		defer w.mu.Unlock()
		p.done = true
		if held := new(WatermarkError); err != nil && !errors.As(err, &held) {
			return
		}
		w.tell("%s gets the watermark %s", p.name, w.at(w.layout().Decode(id).Time))
		if id < w.mark {
			w.breaks("the watermark falls from %s to %s", w.at(w.layout().Decode(w.mark).Time), w.at(w.layout().Decode(id).Time))
		}
		w.mark = max(w.mark, id)
	}()
}

// marked checks an ID of a process that renews.
func (p *process) marked(id, mark snowflake.ID, was snowflake.Grant) {
	w := p.w
	passed := w.layout().Decode(mark).Time.Add(tick)
	silent := w.now-p.heardOf > 1 || p.late >= 0 && w.now-p.late <= 1
	if id <= mark && !(silent && (!was.To.After(passed) || !p.lease.Grant().To.After(passed))) {
		w.breaks("%s issues an ID of time %s, and the watermark was at %s", p.name, w.at(w.layout().Decode(id).Time), w.at(w.layout().Decode(mark).Time))
	}
}

func (p *process) issue() {
	mark, was := p.w.mark, p.lease.Grant()
	p.tried = p.sight()
	p.calling = true
	go func() {
		id, err := p.gen.NextIDContext(soon{context.Background()})
		w := p.w
		w.mu.Lock()
		defer w.mu.Unlock()
		p.calling = false
		if err != nil { // it has changed nothing
			return
		}
		p.issued++
		p.note("issues " + strconv.FormatInt(int64(id), 36))
		parts := w.layout().Decode(id)
		w.tell("%s issues an ID: worker ID %d, clock sequence %d, time %s", p.name, parts.Worker, parts.ClockSeq, w.at(parts.Time))
		if by := w.ids[id]; by != nil {
			w.breaks("%s and %s have issued the same ID, %d", by.name, p.name, id)
		}
		if w.seqBits == 0 && id <= p.last {
			w.breaks("%s issues %d after %d", p.name, id, p.last)
		}
		if mark > 0 {
			p.marked(id, mark, was)
		}
		w.ids[id], p.last = p, id
	}()
}

func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *world) tell(format string, args ...any) {
	if w.telling {
		w.words = append(w.words, fmt.Sprintf(format, args...))
	}
}

// at returns a time as ticks since the story began.
func (w *world) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.1f", float64(t.Sub(w.began))/float64(tick))
}

func (p *process) sight() string {
	if p.ending {
		return "ended"
	}
	return fmt.Sprint(p.now().Unix(), p.lease.Grant(), p.w.mark)
}

func (p *process) release() {
	p.ending = true
	go func() {
		p.err = p.lease.Release(context.Background())
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.done = true
	}()
}

// up reports whether the process is up.
func (p *process) up() bool { return p.begun && !p.dead && !p.done && p.err == nil }

// choices returns what may happen next.
func (w *world) choices() (all []step) {
	add := func(k kind, p, n int) { all = append(all, step{k, int8(p), int8(n)}) }
	mayFault := func(k kind, most int) bool { return w.faulty < w.faults && w.spent[k] < most }
	if w.hot != nil {
		i := slices.Index(w.procs, w.hot)
		n := slices.IndexFunc(w.hot.parked, func(r *query) bool { return !r.writes() })
		add(answer, i, n)
		if mayFault(pause, w.pauses) {
			add(pause, i, n)
		}
		if mayFault(delay, w.delays) {
			add(delay, i, n)
		}
		if mayFault(fail, w.fails) {
			add(fail, i, n)
		}
		return all
	}
	up, first := 0, map[bool]bool{}
	for _, p := range w.procs {
		if p.up() && !p.views {
			up++
		}
	}
	for i, p := range w.procs {
		if !p.begun && !first[p.views] {
			first[p.views] = true
			if up < 2 || p.views {
				add(begin, i, 0)
			}
		}
	}
	for i, p := range w.procs {
		if !p.begun || p.dead {
			continue
		}
		own := w.mayMove(i)
		for n, r := range p.parked {
			add(answer, i, n)
			if mayFault(delay, w.delays) {
				add(delay, i, n)
			}
			if mayFault(fail, w.fails) {
				add(fail, i, n)
			}
			_ = r
		}
		for n, r := range p.heard {
			if r.made < w.now+1 {
				add(hear, i, n)
			}
		}
		for n, nap := range p.naps {
			if nap.due <= w.now && !(p.calling && p.lease != nil) && (own || !p.atRest() || p.lease.unknown) {
				add(wake, i, n)
			}
		}
		if own && p.issued < w.scope.ids && p.gen != nil && !p.calling && p.tried != p.sight() {
			add(issue, i, 0)
		}
		if p.done || p.err != nil || p.views {
			continue
		}
		if (own || p.lease != nil && p.lease.unknown) && p.gen != nil && !p.ending && w.spent[release] < w.releases {
			add(release, i, 0)
		}
		if own && mayFault(dies, w.crashes) {
			add(dies, i, 0)
		}
		if own && mayFault(forward, w.sets) {
			add(forward, i, 0)
		}
		if own && mayFault(forward, w.sets) {
			add(backward, i, 0)
		}
	}
	for n := range w.late {
		add(arrive, 0, n)
	}
	if w.now < w.ticks {
		add(pass, 0, 1)
	} else if w.spent[lose] > 0 && w.now < w.ticks+healed {
		add(pass, 0, healed)
	}
	if mayFault(lose, w.losses) && len(w.entries) > 0 {
		for n := range 2 {
			add(lose, 0, n)
		}
	}
	return all
}

// mayMove reports whether process i may make a step that no other process notices. Such a step could as well
// have come earlier: directly after the process moved last, or after time passed.
func (w *world) mayMove(i int) bool { return i == w.mover || i >= w.order }

// take answer one step.
func (w *world) take(s step) {
	p := w.procs[s.p]
	w.running = p
	p.settle()
	switch s.kind {
	case delay, fail, dies, forward, backward, lose, pause:
		w.faulty++
	}
	rest := p.atRest() && !p.lease.unknown
	switch {
	case s.kind == pass || s.kind == begin || s.kind == lose || s.kind == arrive:
		w.order, w.mover = 0, int(s.p)
	case s.kind == issue || s.kind >= dies && s.kind <= backward || (s.kind == wake || s.kind == release) && rest:
		w.order, w.mover = int(s.p), int(s.p)
	default:
		w.order, w.mover = len(w.procs), int(s.p)
	}
	mark, spent := w.mark, s.kind
	if spent == backward {
		spent = forward
	}
	w.spent[spent]++
	switch s.kind {
	case begin:
		if p.views {
			w.tell("%s asks for the watermark", p.name)
			p.view()
		} else {
			w.tell("%s asks for a worker ID", p.name)
			p.acquire()
		}
	case answer, delay, fail:
		r := p.parked[s.n]
		p.parked = slices.Delete(p.parked, int(s.n), int(s.n)+1)
		switch s.kind {
		case answer:
			w.make(r)
			w.tell("%s", w.told(r))
			close(r.answered)
		case delay:
			w.make(r)
			w.tell("%s; the answer is on its way", w.told(r))
			p.heard = append(p.heard, r)
		case fail:
			if r.writes() {
				late := *r
				w.late = append(w.late, &late)
				slices.SortFunc(w.late, func(x, y *query) int { return strings.Compare(x.String(), y.String()) })
			}
			r.err = errDown
			w.tell("%s gets an error: %s", p.name, w.told(r))
			close(r.answered)
		}
	case hear:
		r := p.heard[s.n]
		p.heard = slices.Delete(p.heard, int(s.n), int(s.n)+1)
		w.tell("%s gets the answer: %s", p.name, r.do)
		close(r.answered)
	case arrive:
		r := w.late[s.n]
		w.late = slices.Delete(w.late, int(s.n), int(s.n)+1)
		w.make(r)
		w.tell("late: %s", w.told(r))
	case wake:
		n := p.naps[s.n]
		p.naps = slices.Delete(p.naps, int(s.n), int(s.n)+1)
		w.tell("%s wakes up", p.name)
		p.note("wake")
		n.over <- time.Time{}
	case issue:
		p.issue()
	case release:
		w.tell("%s releases", p.name)
		p.note("release")
		p.release()
	case dies:
		w.tell("%s crashes", p.name)
		p.kill()
	case forward, backward:
		by := tick * time.Duration(w.by)
		if s.kind == backward {
			by = -by
		}
		p.offset += by
		w.tell("the clock of %s is set by %v", p.name, by)
	case pass:
		w.running = nil
		w.now += int(s.n)
		w.tell("it is %d", w.now)
		time.Sleep(tick * time.Duration(s.n))
	case pause:
		w.tell("%s is paused before it reads", p.name)
	case lose:
		if s.n == 0 {
			clear(w.entries)
			w.tell("the store loses all entries")
		} else {
			maps.DeleteFunc(w.entries, func(key string, _ Entry) bool { return strings.HasPrefix(key, recordPrefix) })
			w.tell("the store loses the records")
		}
	}
	synctest.Wait()
	w.late = slices.DeleteFunc(w.late, w.stale)
	if w.mark != mark { // from now on it matters who issues what
		w.order = 0
	}
	if p.ending { // its naps end with the lease
		p.naps = nil
	}
	w.check()
	w.hot = nil
	if s.kind != pause && s.kind != pass && slices.ContainsFunc(p.parked, func(r *query) bool { return !r.writes() }) {
		w.hot = p
		if all := w.choices(); len(all) == 1 {
			w.take(all[0])
		}
	}
}

// stale reports whether a request will never change anything any more.
func (w *world) stale(r *query) bool {
	is := w.entries[r.key].Version
	return is != r.old && (r.old != "" || w.losses == 0)
}

// told says what the store has done.
func (w *world) told(r *query) string {
	if !w.telling {
		return ""
	}
	what := ""
	if worker, ok := workerOf(recordPrefix, r.key); ok && r.writes() {
		rec, _ := decodeRecord(worker, Entry{Version: "x", Value: r.value})
		what = fmt.Sprintf(": %s by %s (%s), clock sequence %d, from %s to %s", rec.State, rec.Owner, rec.Token, rec.ClockSeq, w.at(rec.From), w.at(rec.Bound()))
	}
	if r.err != nil {
		what += fmt.Sprintf(" (%v)", r.err)
	}
	return fmt.Sprintf("%s: %s %s%s", r.p.name, r.do, r.key, what)
}

// kill ends the goroutines of a process.
func (p *process) kill() {
	p.dead = true
	for _, r := range p.parked {
		if r.writes() {
			late := *r
			p.w.late = append(p.w.late, &late)
		}
	}
	slices.SortFunc(p.w.late, func(x, y *query) int { return strings.Compare(x.String(), y.String()) })
	p.end()
}

func (p *process) end() {
	for _, r := range append(p.parked, p.heard...) {
		close(r.answered)
	}
	for _, n := range p.naps {
		n.over <- time.Time{}
	}
	p.parked, p.heard, p.naps = nil, nil, nil
}

// check compares the windows of the processes that are up with all windows that others had, and with their IDs.
// A process that releases its worker ID gives the rest of its window back, so only its IDs count.
func (w *world) check() {
	for _, p := range w.procs {
		if p.dead || p.gen == nil || p.ending {
			continue
		}
		g := p.lease.Grant()
		of := [2]int{g.Worker, g.ClockSeq}
		if low := p.low[of]; g.From.Before(low) && low.Before(g.To) { // a window that ends there is the one before
			w.breaks("%s begins a window of worker ID %d and clock sequence %d at %s, and the bound was %s", p.name, g.Worker, g.ClockSeq, w.at(g.From), w.at(p.low[of]))
		}
		if g.From.Before(g.To) && g.To.After(p.saved[of]) {
			w.breaks("%s may issue IDs of worker ID %d and clock sequence %d up to %s, and has not saved that bound", p.name, g.Worker, g.ClockSeq, w.at(g.To))
		}
		if was, ok := p.windows[of]; ok && !g.From.Before(was.From) && g.From.Before(was.To) { // it is the same window, also if the watermark has passed a part of it
			g.From, g.To = was.From, later(was.To, g.To)
		}
		if g.From.Before(g.To) {
			p.windows[of] = g
		}
		for _, q := range w.procs {
			if h, ok := q.windows[of]; ok && p != q && !q.ending && g.From.Before(h.To) && h.From.Before(g.To) {
				w.breaks("%s and %s may both issue IDs of worker ID %d and clock sequence %d from %s to %s", p.name, q.name, g.Worker, g.ClockSeq, w.at(later(g.From, h.From)), w.at(earlier(g.To, h.To)))
			}
		}
		for id, by := range w.ids {
			is := w.layout().Decode(id)
			if by != p && is.Worker == g.Worker && is.ClockSeq == g.ClockSeq && !is.Time.Before(g.From) && is.Time.Before(g.To) {
				w.breaks("%s may issue IDs of worker ID %d and clock sequence %d at %s, and %s has issued one", p.name, g.Worker, g.ClockSeq, w.at(is.Time), by.name)
			}
		}
	}
}

// key returns what decides the future.
func (w *world) key() [16]byte {
	var b strings.Builder
	fmt.Fprintln(&b, w.now, w.mark, w.faulty, w.spent[pause], w.spent[delay], w.spent[fail], w.spent[release], w.spent[dies], w.spent[forward], w.spent[lose])
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		write(&b, w.entries[key])
	}
	for _, r := range w.late {
		fmt.Fprintln(&b, r)
	}
	for _, id := range slices.Sorted(maps.Keys(w.ids)) {
		fmt.Fprintln(&b, id, w.ids[id].name)
	}
	for i, p := range w.procs {
		fmt.Fprintln(&b, p.name, p == w.hot, w.mayMove(i) && p.begun && !p.dead && !p.done, p.draws%w.workers, p.issued, p.begun, p.dead, p.ending, p.done, p.err, p.offset, p.tried, w.silence(p), p.late)
		if !p.ending {
			fmt.Fprintln(&b, p.windows, p.low, p.saved)
		}
		if p.dead || !p.begun {
			continue
		}
		for _, r := range p.heard {
			fmt.Fprintln(&b, "heard", r.key, r.answer(), r.made)
		}
		for _, n := range p.naps {
			fmt.Fprint(&b, n.due <= w.now)
		}
		p.settle()
		b.WriteString(p.events.String())
	}
	sum := sha256.Sum256([]byte(b.String()))
	return [16]byte(sum[:16])
}

// silence returns for how many ticks nothing was saved by p, up to 2. It matters only to the watermark.
func (w *world) silence(p *process) int {
	if w.readers == 0 {
		return 0
	}
	return min(w.now-p.heardOf, 2)
}

// atRest reports whether the process only waits for its next renewal.
func (p *process) atRest() bool {
	return p.gen != nil && !p.calling && !p.ending && len(p.parked)+len(p.heard) == 0 && len(p.naps) == 1 && len(p.lease.op) == 0 && p.lease.trouble() == nil
}

// settle forgets how the process came to be at rest.
func (p *process) settle() {
	if (p.done || p.err != nil) && !p.calling && len(p.parked)+len(p.heard)+len(p.naps) == 0 {
		p.events.Reset()
	}
	if p.atRest() {
		p.events.Reset()
		dump(&p.events, reflect.ValueOf(p.lease).Elem())
		dump(&p.events, reflect.ValueOf(p.gen).Elem())
	}
}

// aside are the fields on which no later step depends.
var aside = []string{"Lease.store", "Lease.o", "Lease.log", "Lease.away", "Lease.horizon", "Lease.saved", "Lease.bound", "Lease.stats", "Lease.failing",
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
		var all []string
		for it := v.MapRange(); it.Next(); {
			var one strings.Builder
			dump(&one, it.Key())
			one.WriteByte(':')
			dump(&one, it.Value())
			all = append(all, one.String())
		}
		slices.Sort(all)
		fmt.Fprint(b, all)
	case reflect.Struct:
		dumpStruct(b, v)
	}
	b.WriteByte(' ')
}

func dumpStruct(b *strings.Builder, v reflect.Value) {
	if v.CanAddr() {
		switch p := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(type) {
		case *atomic.Pointer[Record]:
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
		}
	}
	t := v.Type()
	if t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic" {
		return
	}
	b.WriteByte('{')
	for i := range v.NumField() {
		if !slices.Contains(aside, t.Name()+"."+t.Field(i).Name) {
			dump(b, v.Field(i))
		}
	}
	b.WriteByte('}')
}

// ending is what a story leads to.
type ending struct {
	key     [16]byte
	choices []step
	broken  string
	words   []string
}

// tell tells a story.
func (s scope) tell(t *testing.T, story []step, words bool) (end ending) {
	synctest.Test(t, func(*testing.T) {
		time.Sleep(tick / 2) // the windows end within ticks
		w := &world{scope: s, began: time.Now().Add(-tick / 2), entries: map[string]Entry{}, puts: map[string]int{}, ids: map[snowflake.ID]*process{}, telling: words}
		newTimer, randomText = w.newTimer, w.randomText
		dice = w.dice
		clear(watched.stores)
		w.entries[doorKey] = Entry{Key: doorKey, Version: "0", Value: door{Name: "store", Layout: s.layout(), Open: true}.encode(), Time: w.began}
		for i := range s.processes {
			w.procs = append(w.procs, &process{w: w, late: -1, windows: map[[2]int]snowflake.Grant{}, low: map[[2]int]time.Time{}, saved: map[[2]int]time.Time{}, name: []string{"A", "B", "A'", "B'"}[i]})
		}
		for i := range s.readers {
			w.procs = append(w.procs, &process{w: w, late: -1, low: map[[2]int]time.Time{}, saved: map[[2]int]time.Time{}, views: true, name: fmt.Sprint("reader ", i+1)})
		}
		if s.held {
			w.take(step{begin, 0, 0})
			for w.procs[0].gen == nil {
				w.take(step{answer, 0, 0})
			}
			w.order = 0
		}
		for _, s := range story {
			w.take(s)
		}
		end = ending{w.key(), w.choices(), w.broken, w.words}
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		for _, p := range w.procs {
			p.end()
			w.mu.Lock()
			l := p.lease
			w.mu.Unlock()
			if l != nil {
				l.cancel()
			}
		}
	})
	return end
}

// scopes are what go run ./internal/proof explores, one by one. If all run in one test, they are smaller.
var scopes = []scope{
	{name: "race", workers: 1, processes: 2, ticks: 1, faults: 1, crashes: 1, pauses: 1, fails: 1},
	{name: "hold", workers: 1, processes: 2, held: true, ticks: 3, faults: 1, crashes: 1, fails: 1},
	{name: "answers", workers: 1, processes: 2, held: true, ticks: 3, faults: 1, pauses: 1, delays: 1},
	{name: "release", workers: 1, processes: 2, held: true, ticks: 2, ids: 1, releases: 1, faults: 1, fails: 1},
	{name: "clocks", workers: 1, processes: 2, held: true, ticks: 3, faults: 2, sets: 2, by: 2},
	{name: "behind", workers: 1, processes: 2, held: true, ticks: 2, ids: 1, faults: 1, sets: 1, by: 1},
	{name: "replacement", workers: 2, processes: 2, held: true, ticks: 4},
	{name: "sequences", workers: 1, seqBits: 1, processes: 2, held: true, ticks: 1, ids: 2, releases: 1, faults: 1, sets: 1, by: 1},
	{name: "losses", workers: 1, processes: 2, held: true, ticks: 1, faults: 2, losses: 1, pauses: 1},
	{name: "watermark", workers: 1, processes: 1, readers: 1, held: true, ticks: 2, ids: 1},
	{name: "newcomer", workers: 1, processes: 1, readers: 1, ticks: 1, ids: 1, faults: 1, sets: 1, by: 1},
	{name: "bump", workers: 1, seqBits: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 2, faults: 1, sets: 1, by: 1},
	{name: "floor", workers: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 1, faults: 1, sets: 1, by: 1},
}

var (
	one        = flag.String("scope", "", "the scope of TestEveryInterleaving; empty: all")
	listScopes = flag.Bool("scopes", false, "TestEveryInterleaving only lists the scopes")
	moreTicks  = flag.Int("more-ticks", 0, "by how many ticks TestEveryInterleaving enlarges each scope; it may be negative")
	moreFaults = flag.Int("more-faults", 0, "by how many faults TestEveryInterleaving enlarges each scope")
)

// TestEveryInterleaving tells the stories breadth first, so a story that fails is a shortest story.
func TestEveryInterleaving(t *testing.T) {
	timer, text, die := newTimer, randomText, dice
	t.Cleanup(func() { newTimer, randomText, dice = timer, text, die })
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, s := range scopes {
		if *one != "" && s.name != *one {
			continue
		}
		if *listScopes {
			t.Log("scope:", s.name)
			continue
		}
		if *one == "" {
			s.ticks, s.faults = min(s.ticks, 2-min(s.ids, 1)), min(s.faults, 1-min(s.ids, 1))
		}
		s.ticks += *moreTicks
		s.faults += *moreFaults
		t.Run(s.name, s.explore)
	}
}

// node is a state: the last step of a story that leads to it, and the state before.
type node struct {
	before int32
	step   step
}

func (s scope) explore(t *testing.T) {
	begun, told := time.Now(), 0
	first := s.tell(t, nil, false)
	nodes, todo, seen := []node{{}}, [][]step{first.choices}, map[[16]byte]bool{first.key: true}
	for at := 0; at < len(nodes); at++ {
		var story []step
		for n := int32(at); n > 0; n = nodes[n].before {
			story = append(story, nodes[n].step)
		}
		slices.Reverse(story)
		for _, next := range todo[at] {
			told++
			end := s.tell(t, append(story, next), false)
			if end.broken != "" {
				words := s.tell(t, append(story, next), true).words
				t.Fatalf("a story of %d steps, after %d states:\n%s\nBROKEN: %s", len(story)+1, len(nodes), strings.Join(words, "\n"), end.broken)
			}
			if !seen[end.key] {
				seen[end.key] = true
				nodes, todo = append(nodes, node{int32(at), next}), append(todo, end.choices)
			}
		}
		todo[at] = nil
	}
	t.Logf("%s: %d states, %d steps, %.1f s", s.name, len(nodes), told, time.Since(begun).Seconds())
}
