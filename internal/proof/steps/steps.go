// Package steps has the model of the leases, lease.smt2, and holds what happened in a run against
// it: each step of the run has to be a step of the model. The model is evaluated as it stands, so
// the relation that z3 proves is the relation that the run is held against.
package steps

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of save.
type Kind int64

// The kinds of saves, in the model's order.
const (
	Take Kind = iota
	Move
	Release
	Restore
)

// Save is a request to put a record.
type Save struct {
	By, Old int // a holder, and the save that it replaces; 0: no entry
	Kind    Kind
	Seq     int   // the clock sequence of its window,
	From    int64 // and where the window begins
	Name    int64 // the epoch of the store that its holder found
	Bounds  []int64
	Low     []int64 // of a Take: the bounds that its holder found
}

// Run is a run of the protocol so far, as a state of the model. Holders and saves are numbered from 1 on. Times
// are nanoseconds since 1970.
type Run struct {
	*relation
	clockSeqs int64
	tables    [][2][]int64 // of each function, before the step and after it
	variables []int64
	things    [4][]int64 // that the step changes or names, of each sort
	changed   []cell
	holders   int64
	saves     int64
	whole     bool                       // things has all things; for a test
	judged    func(step string, is bool) // is called before a step is made or refused, if it is not nil; for a test
	open      map[int64][]int64          // the saves of a holder whose answers it heeds
	noted     int64                      // the holder that the step lets take note of its record; 0: none

	Steps map[string]int // how many there were, by their names in the model
}

// cell is an element of a table.
type cell struct {
	function int
	index    int64
}

// New returns a run that has not begun. If loses is false, its store loses no entries. longest is MaxWindow, and skew is by
// how much clocks may differ if the store loses entries.
func New(clockSeqs int, loses bool, longest, skew time.Duration) *Run {
	r := &Run{relation: compiled(), clockSeqs: int64(clockSeqs), open: map[int64][]int64{}, Steps: map[string]int{}}
	r.variables = make([]int64, r.slots)
	r.tables = make([][2][]int64, len(r.functions))
	for i := range r.tables {
		r.tables[i] = [2][]int64{make([]int64, 1), make([]int64, 1)}
	}
	for c := range r.clockSeqs {
		r.things[2] = append(r.things[2], c)
	}
	for _, g := range r.guards {
		r.let(1, g)
	}
	r.let(int64(longest), "M")
	r.let(int64(skew/2), "half")
	r.let(truth(loses), "loses")
	return r
}

// Without leaves a guard out.
func (r *Run) Without(guard string) {
	if !slices.Contains(r.guards, guard) {
		panic("there is no guard " + guard)
	}
	r.let(0, guard)
}

// NewHolder returns a holder that has not sent its first save.
func (r *Run) NewHolder(worker int, window time.Duration) int {
	r.holders++
	r.let(int64(worker), "worker", r.holders)
	r.let(int64(window), "window", r.holders)
	return int(r.holders)
}

// index returns where a function has its value for some arguments.
func (r *Run) index(f *function, args []int64) (i int64) {
	if len(args) != len(f.sorts) {
		panic(fmt.Sprint("wrong number of arguments: ", args))
	}
	switch len(args) {
	case 1:
		return args[0]
	case 2:
		return args[0]*r.clockSeqs + args[1]
	}
	return 0
}

// write sets a value in the state before the step, 0, or after it, 1.
func (r *Run) write(v int64, function int, i int64, state int) {
	t := &r.tables[function][state]
	for int64(len(*t)) <= i {
		*t = append(*t, 0)
	}
	(*t)[i] = v
}

// let sets what no step changes.
func (r *Run) let(v int64, name string, args ...int64) {
	f := r.functions[name]
	r.write(v, f.index, r.index(f, args), 0)
}

// is returns a value before the step.
func (r *Run) is(name string, args ...int64) int64 {
	f := r.functions[name]
	return at(r.tables[f.index][0], r.index(f, args))
}

// set sets a value after the step.
func (r *Run) set(v int64, name string, args ...int64) {
	f := r.functions[name]
	i := r.index(f, args)
	if at(r.tables[f.index][0], i) == v {
		return
	}
	r.write(v, f.index, i, 1)
	r.changed = append(r.changed, cell{f.index, i})
	for k, a := range args {
		r.name(f.sorts[k], a)
	}
}

// name adds a thing to those that the step changes or names. The model says of all other things only that a step
// leaves them as they were, which is so.
func (r *Run) name(sort string, thing int64) {
	k := slices.Index(sorts, sort)
	if k != 2 && !slices.Contains(r.things[k], thing) {
		r.things[k] = append(r.things[k], thing)
	}
}

// begin begins a step of a holder, with a save, after the time until now has passed.
func (r *Run) begin(now time.Time, holder, save int64) error {
	if t := now.UnixNano(); t > r.is("now") {
		r.about(holder, save)
		r.set(t, "now")
		if err := r.end("time passes"); err != nil {
			return err
		}
	}
	r.about(holder, save)
	return nil
}

func (r *Run) about(holder, save int64) {
	for k := range r.things {
		if k != 2 {
			r.things[k] = r.things[k][:0]
		}
	}
	if r.whole {
		for i := range r.holders + 1 {
			r.name("Holder", i)
			r.name("Worker", r.is("worker", i))
		}
		for i := range r.saves + 1 {
			r.name("Save", i)
		}
	}
	r.let(holder, "h")
	r.let(save, "s")
	worker := r.is("worker", holder)
	r.name("Worker", worker)
	r.name("Holder", holder)
	for _, s := range []int64{0, save, r.is("old", save), r.is("rec", holder), r.is("cur", worker)} {
		r.name("Save", s)
	}
}

// end makes the step if it is a step of the model of this name. Otherwise nothing has changed, and it
// returns a *NoStepError.
func (r *Run) end(name string) error {
	s, ok := r.steps[name]
	if !ok {
		panic("the model has no step " + name)
	}
	var err *NoStepError
	for i, holds := range s.holds {
		if holds(r) == 0 {
			err = &NoStepError{Step: name, Broken: s.terms[i].String()}
			if slices.ContainsFunc(r.guards, func(g string) bool { return strings.Contains(err.Broken, g) }) {
				err.Guards = r.guardsOf(holds)
			}
			break
		}
	}
	if r.judged != nil {
		r.judged(name, err == nil)
	}
	source, target := 1, 0
	if err != nil {
		source, target = 0, 1
	}
	for _, c := range r.changed {
		r.write(at(r.tables[c.function][source], c.index), c.function, c.index, target)
	}
	r.changed = r.changed[:0]
	if err != nil {
		r.noted = 0
		return err
	}
	if r.noted != 0 {
		delete(r.open, r.noted)
		r.noted = 0
	}
	r.Steps[name]++
	return nil
}

// guardsOf returns the guards without which a term is true. If no guard is enough, it returns two.
func (r *Run) guardsOf(holds value) (names []string) {
	for _, g := range r.guards {
		names = append(names, r.without(g, func() []string {
			if holds(r) == 1 {
				return []string{g}
			}
			return nil
		})...)
	}
	for i, g := range r.guards {
		for _, other := range r.guards[i+1:] {
			if len(names) == 0 {
				names = r.without(g, func() []string {
					return r.without(other, func() []string {
						if holds(r) == 1 {
							return []string{g + " and " + other}
						}
						return nil
					})
				})
			}
		}
	}
	return names
}

// without returns what f returns if a guard is left out that was not.
func (r *Run) without(guard string, f func() []string) []string {
	if r.is(guard) == 0 {
		return nil
	}
	r.let(0, guard)
	defer r.let(1, guard)
	return f()
}

// NoStepError says that something happened that is no step of the model.
type NoStepError struct {
	Step   string   // the step of the model that it would be
	Broken string   // the first of the step's conditions that was not met
	Guards []string // the guards of the model without which it would be met
}

func (e *NoStepError) Error() string {
	guards := ""
	if len(e.Guards) > 0 {
		guards = " breaks " + strings.Join(e.Guards, " or ") + ":"
	}
	return fmt.Sprintf("this is no step of the model: %q%s %s", e.Step, guards, e.Broken)
}

var sends = map[Kind]string{
	Take:    "a newcomer sends a save that takes the worker ID of the entry",
	Move:    "a holder sends a save that moves its bound or changes to another clock sequence",
	Release: "a holder stops, and sends a save that gives the worker ID back",
	Restore: "a holder finds no entry, and sends a save that puts its record back",
}

// Send is a holder's request to put a record.
func (r *Run) Send(now time.Time, s Save) (save int, err error) {
	r.saves++
	id, h := r.saves, int64(s.By)
	for name, v := range map[string]int64{"by": h, "kind": int64(s.Kind), "old": int64(s.Old), "seq": int64(s.Seq), "from": s.From, "name": s.Name} {
		r.let(v, name, id)
	}
	for c := range r.clockSeqs {
		r.let(s.Bounds[c], "bound", id, c)
		if s.Kind == Take {
			r.let(s.Low[c], "low", h, c)
		}
	}
	if err := r.begin(now, h, id); err != nil {
		return 0, err
	}
	r.set(1, "sent", id)
	r.set(1, "open", id)
	r.set(1, "born", h)
	if s.Kind == Release {
		r.set(1, "over", h)
		r.set(0, "active", h)
	}
	if err := r.end(sends[s.Kind]); err != nil {
		return 0, err
	}
	r.open[h] = append(r.open[h], id)
	return int(id), nil
}

var arrivals = map[Kind]string{
	Take:    "a save arrives that takes the worker ID",
	Move:    "a save arrives that moves the bound or changes to another clock sequence",
	Release: "a save arrives that gives the worker ID back",
	Restore: "a save arrives that puts the record back",
}

// Arrive is the moment at which the store makes a save.
func (r *Run) Arrive(now time.Time, save int) error {
	s := int64(save)
	h := r.is("by", s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	w, kind := r.is("worker", h), Kind(r.is("kind", s))
	r.set(s, "cur", w)
	r.set(1, "made", s)
	r.set(r.is("now"), "at", s)
	if kind == Move || kind == Release || kind == Take && (r.is("old", s) != 0 || r.is("name", s) == r.is("epoch", w)) {
		r.set(1, "line", s)
		r.set(h, "heir", w)
		if c := r.is("seq", s); kind != Release {
			r.set(max(r.is("top", h, c), r.is("bound", s, c)), "top", h, c)
		}
	}
	if kind == Release {
		for c := range r.clockSeqs {
			r.set(r.is("next", h, c), "top", h, c)
		}
	}
	return r.end(arrivals[kind])
}

// Answer is the moment at which a holder learns that a Take or a Move was made. If it is granted what the save says, it may
// stamp that from now on.
func (r *Run) Answer(now time.Time, save int, granted bool) error {
	s := int64(save)
	h := r.is("by", s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	r.notes(h, s)
	if seq := r.is("seq", s); granted {
		r.set(1, "active", h)
		r.set(seq, "gseq", h)
		r.set(r.is("from", s), "gfrom", h)
		r.set(r.is("bound", s, seq), "gto", h)
	}
	if Kind(r.is("kind", s)) == Take {
		return r.end("a newcomer gets its answer, and is granted its window")
	}
	return r.end("a holder gets its answer, and is granted more or goes on as before")
}

// notes: the holder's own record is s, and it heeds no answer to an earlier save.
func (r *Run) notes(h, s int64) {
	r.noted = h
	r.set(s, "rec", h)
	for _, o := range r.open[h] {
		r.set(0, "open", o)
	}
}

// Look is the moment at which a holder finds the entry to be its own save.
func (r *Run) Look(now time.Time, save int) error {
	s := int64(save)
	h := r.is("by", s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	r.notes(h, s)
	return r.end("a holder looks at the entry, and finds its own save")
}

// Learn is the moment at which a holder learns that its Restore was made.
func (r *Run) Learn(now time.Time, save int) error {
	s := int64(save)
	h := r.is("by", s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	r.notes(h, s)
	r.set(1, "line", s)
	if r.is("cur", r.is("worker", h)) == s {
		for c := range r.clockSeqs {
			r.set(min(r.is("top", h, c), r.is("bound", s, c)), "top", h, c)
		}
	}
	return r.end("a holder learns in time that its record was put back")
}

// Stamp is the issue of IDs whose tick begins at t.
func (r *Run) Stamp(now time.Time, holder int, t time.Time) error {
	h := int64(holder)
	if err := r.begin(now, h, r.is("rec", h)); err != nil {
		return err
	}
	tick, c := t.UnixNano(), r.is("gseq", h)
	r.let(tick, "t")
	r.set(max(r.is("next", h, c), tick+1), "next", h, c)
	return r.end("a holder stamps t")
}

// Lose is the moment at which the store loses the entry of a worker ID.
func (r *Run) Lose(now time.Time, worker int) error {
	w := int64(worker)
	r.let(w, "worker", 0) // the step is nobody's
	if err := r.begin(now, 0, 0); err != nil {
		return err
	}
	r.set(0, "cur", w)
	r.set(r.is("epoch", w)+1, "epoch", w)
	r.set(r.is("now"), "lost", w)
	return r.end("the store loses the entry")
}

// Remove is the moment at which a newcomer that looked again removes its record.
func (r *Run) Remove(now time.Time, save int) error {
	s := int64(save)
	if err := r.begin(now, r.is("by", s), s); err != nil {
		return err
	}
	r.set(0, "cur", r.is("worker", r.is("by", s)))
	return r.end("a newcomer that looked again removes its record")
}

// Holder is what the model says of a holder now.
type Holder struct {
	Record   int // the holder's own record, as last known to be saved; 0: none
	Over     bool
	Active   bool
	Seq      int // its grant
	From, To int64
	Worker   int
}

func (h Holder) String() string {
	at := func(t int64) string { return time.Unix(0, t).UTC().Format("15:04:05.000000") }
	switch {
	case h.Record == 0:
		return "nothing, because it does not know yet that it has the worker ID"
	case h.Over:
		return "nothing, because it has given the worker ID back"
	}
	return fmt.Sprintf("clock sequence %d from %s to %s", h.Seq, at(h.From), at(h.To))
}

// Holder returns what the model says of a holder now.
func (r *Run) Holder(holder int) Holder {
	h := int64(holder)
	return Holder{
		Record: int(r.is("rec", h)), Over: r.is("over", h) == 1, Active: r.is("active", h) == 1,
		Seq: int(r.is("gseq", h)), From: r.is("gfrom", h), To: r.is("gto", h), Worker: int(r.is("worker", h)),
	}
}

// Entry returns the save that is the entry of a worker ID, or 0.
func (r *Run) Entry(worker int) int { return int(r.is("cur", int64(worker))) }

// Save returns what the model says of a save that never changes, but for its bounds.
func (r *Run) Save(save int) Save {
	s := int64(save)
	return Save{By: int(r.is("by", s)), Old: int(r.is("old", s)), Kind: Kind(r.is("kind", s)), Seq: int(r.is("seq", s)), From: r.is("from", s), Name: r.is("name", s)}
}

// Bound returns a bound in a save.
func (r *Run) Bound(save, seq int) int64 { return r.is("bound", int64(save), int64(seq)) }

// Epoch returns how often the store has lost the entry of a worker ID.
func (r *Run) Epoch(worker int) int64 { return r.is("epoch", int64(worker)) }

// Made reports whether a save was made.
func (r *Run) Made(save int) bool { return r.is("made", int64(save)) == 1 }
