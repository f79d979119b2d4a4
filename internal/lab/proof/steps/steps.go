// Package steps has the model of the leases, lease.smt2, and compares a run with it: each step of
// the run has to be a step of the model. The model is evaluated as it stands, so the relation about
// which z3 proves the invariant is the relation that the run is compared with.
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

// Run is a run of the protocol so far, as a state of the model. Holders and saves are numbered from
// 1 on. Times are nanoseconds since 1970.
type Run struct {
	*relation
	clockSeqs int64
	tables    [][2][]int64 // of each function, before the step and after it
	variables []int64
	things    [4][]int64 // that the step changes or names, of each sort
	changed   []cell
	dirty     uint64 // the functions of which a cell is changed
	holders   int64
	saves     int64
	whole     bool // things has all things; for a test

	// judged is called before a step is made or refused, if it is not nil: for a test.
	judged func(step string, is bool)

	open map[int64][]int64 // the saves of a holder whose answers it heeds

	// noted is the holder that the step lets take note of its record; 0: none.
	noted int64

	Steps map[string]int // how many there were, by their names in the model
}

// cell is an element of a table.
type cell struct {
	function int
	index    int64
}

// New returns a run that has not begun. If loses is false, its store loses no entries. longest is
// MaxWindow, and skew is how much clocks may differ if the store loses entries.
func New(clockSeqs int, loses bool, longest, skew time.Duration) *Run {
	r := &Run{relation: compiled(), clockSeqs: int64(clockSeqs), open: map[int64][]int64{}, Steps: map[string]int{}}
	r.variables = make([]int64, r.slots)
	r.tables = make([][2][]int64, len(r.functions))
	for i := range r.tables {
		r.tables[i] = [2][]int64{make([]int64, 1), make([]int64, 1)}
	}
	for c := range r.clockSeqs {
		r.things[aClockSeq] = append(r.things[aClockSeq], c)
	}
	for _, g := range r.guards {
		r.let(1, r.functions[g])
	}
	r.let(int64(longest), r.fn.M)
	r.let(int64(skew/2), r.fn.Half)
	r.let(truth(loses), r.fn.Loses)
	return r
}

// Without leaves a guard out.
func (r *Run) Without(guard string) {
	if !slices.Contains(r.guards, guard) {
		panic("there is no guard " + guard)
	}
	r.let(0, r.functions[guard])
}

// NewHolder returns a holder that has not sent its first save.
func (r *Run) NewHolder(worker int, window time.Duration) int {
	r.holders++
	r.let(int64(worker), r.fn.Worker, r.holders)
	r.let(int64(window), r.fn.Window, r.holders)
	return int(r.holders)
}

// index returns where a function has its value for some arguments.
func (r *Run) index(f *function, args []int64) (i int64) {
	if len(args) != len(f.sorts) {
		panic("wrong number of arguments")
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
func (r *Run) let(v int64, f *function, args ...int64) {
	r.write(v, f.index, r.index(f, args), 0)
}

// is returns a value before the step.
func (r *Run) is(f *function, args ...int64) int64 {
	return at(r.tables[f.index][0], r.index(f, args))
}

// set sets a value after the step.
func (r *Run) set(v int64, f *function, args ...int64) {
	i := r.index(f, args)
	if at(r.tables[f.index][0], i) == v {
		return
	}
	r.write(v, f.index, i, 1)
	r.changed = append(r.changed, cell{f.index, i})
	r.dirty |= f.bit
	for k, a := range args {
		r.name(f.sorts[k], a)
	}
}

// name adds a thing to those that the step changes or names. Of all other things the model says
// only that a step leaves them as they were. They are not checked, because no step changes them.
func (r *Run) name(k sort, thing int64) {
	if k != aClockSeq && !slices.Contains(r.things[k], thing) {
		r.things[k] = append(r.things[k], thing)
	}
}

// begin begins a step of a holder, with a save, after the time until now has passed.
func (r *Run) begin(now time.Time, holder, save int64) error {
	r.about(holder, save)
	if t := now.UnixNano(); t > r.is(r.fn.Now) {
		r.set(t, r.fn.Now)
		return r.end("time passes")
	}
	return nil
}

func (r *Run) about(holder, save int64) {
	for _, k := range []sort{aWorker, aHolder, aSave} {
		r.things[k] = r.things[k][:0]
	}
	if r.whole {
		for i := range r.holders + 1 {
			r.name(aHolder, i)
			r.name(aWorker, r.is(r.fn.Worker, i))
		}
		for i := range r.saves + 1 {
			r.name(aSave, i)
		}
	}
	r.let(holder, r.fn.H)
	r.let(save, r.fn.S)
	worker := r.is(r.fn.Worker, holder)
	r.name(aWorker, worker)
	r.name(aHolder, holder)
	for _, s := range []int64{0, save, r.is(r.fn.Old, save), r.is(r.fn.Rec, holder), r.is(r.fn.Cur, worker)} {
		r.name(aSave, s)
	}
}

// end makes the step if it is a step of the model of this name. Otherwise nothing has changed, and
// it returns a *NoStepError.
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
	r.changed, r.dirty = r.changed[:0], 0
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
	if r.is(r.functions[guard]) == 0 {
		return nil
	}
	r.let(0, r.functions[guard])
	defer r.let(1, r.functions[guard])
	return f()
}

// NoStepError says that something happened that is not a step of the model.
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
	r.let(h, r.fn.By, id)
	r.let(int64(s.Kind), r.fn.Kind, id)
	r.let(int64(s.Old), r.fn.Old, id)
	r.let(int64(s.Seq), r.fn.Seq, id)
	r.let(s.From, r.fn.From, id)
	r.let(s.Name, r.fn.Name, id)
	for c := range r.clockSeqs {
		r.let(s.Bounds[c], r.fn.Bound, id, c)
		if s.Kind == Take {
			r.let(s.Low[c], r.fn.Low, h, c)
		}
	}
	if err := r.begin(now, h, id); err != nil {
		return 0, err
	}
	r.set(1, r.fn.Sent, id)
	r.set(1, r.fn.Open, id)
	r.set(1, r.fn.Born, h)
	if s.Kind == Release {
		r.set(1, r.fn.Over, h)
		r.set(0, r.fn.Active, h)
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
	h := r.is(r.fn.By, s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	w, kind := r.is(r.fn.Worker, h), Kind(r.is(r.fn.Kind, s))
	r.set(s, r.fn.Cur, w)
	r.set(1, r.fn.Made, s)
	r.set(r.is(r.fn.Now), r.fn.At, s)
	if kind == Move || kind == Release || kind == Take && (r.is(r.fn.Old, s) != 0 || r.is(r.fn.Name, s) == r.is(r.fn.Epoch, w)) {
		r.set(1, r.fn.Line, s)
		r.set(h, r.fn.Heir, w)
		if c := r.is(r.fn.Seq, s); kind != Release {
			r.set(max(r.is(r.fn.Top, h, c), r.is(r.fn.Bound, s, c)), r.fn.Top, h, c)
		}
	}
	if kind == Release {
		for c := range r.clockSeqs {
			r.set(r.is(r.fn.Next, h, c), r.fn.Top, h, c)
		}
	}
	return r.end(arrivals[kind])
}

// Answer is the moment at which a holder learns that a Take or a Move was made. If it is granted
// what the save says, it may stamp that from now on.
func (r *Run) Answer(now time.Time, save int, granted bool) error {
	s := int64(save)
	h := r.is(r.fn.By, s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	r.notes(h, s)
	if seq := r.is(r.fn.Seq, s); granted {
		r.set(1, r.fn.Active, h)
		r.set(seq, r.fn.Gseq, h)
		r.set(r.is(r.fn.From, s), r.fn.Gfrom, h)
		r.set(r.is(r.fn.Bound, s, seq), r.fn.Gto, h)
	}
	if Kind(r.is(r.fn.Kind, s)) == Take {
		return r.end("a newcomer gets its answer, and is granted its window")
	}
	return r.end("a holder gets its answer, and is granted more or goes on as before")
}

// notes: the holder's own record is s, and it heeds no answer to an earlier save.
func (r *Run) notes(h, s int64) {
	r.noted = h
	r.set(s, r.fn.Rec, h)
	for _, o := range r.open[h] {
		r.set(0, r.fn.Open, o)
	}
}

// Look is the moment at which a holder finds the entry to be its own save.
func (r *Run) Look(now time.Time, save int) error {
	s := int64(save)
	h := r.is(r.fn.By, s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	r.notes(h, s)
	return r.end("a holder looks at the entry, and finds its own save")
}

// Restored is the moment at which a holder learns that its Restore was made.
func (r *Run) Restored(now time.Time, save int) error {
	s := int64(save)
	h := r.is(r.fn.By, s)
	if err := r.begin(now, h, s); err != nil {
		return err
	}
	r.notes(h, s)
	r.set(1, r.fn.Line, s)
	if r.is(r.fn.Cur, r.is(r.fn.Worker, h)) == s {
		for c := range r.clockSeqs {
			r.set(min(r.is(r.fn.Top, h, c), r.is(r.fn.Bound, s, c)), r.fn.Top, h, c)
		}
	}
	return r.end("a holder learns in time that its record was put back")
}

// Stamp is the issue of IDs whose tick begins at t.
func (r *Run) Stamp(now time.Time, holder int, t time.Time) error {
	h := int64(holder)
	if err := r.begin(now, h, r.is(r.fn.Rec, h)); err != nil {
		return err
	}
	tick, c := t.UnixNano(), r.is(r.fn.Gseq, h)
	r.let(tick, r.fn.T)
	r.set(max(r.is(r.fn.Next, h, c), tick+1), r.fn.Next, h, c)
	return r.end("a holder stamps t")
}

// Lose is the moment at which the store loses the entry of a worker ID.
func (r *Run) Lose(now time.Time, worker int) error {
	w := int64(worker)
	r.let(w, r.fn.Worker, 0) // the step is nobody's
	if err := r.begin(now, 0, 0); err != nil {
		return err
	}
	r.set(0, r.fn.Cur, w)
	r.set(r.is(r.fn.Epoch, w)+1, r.fn.Epoch, w)
	r.set(r.is(r.fn.Now), r.fn.Lost, w)
	return r.end("the store loses the entry")
}

// Remove is the moment at which a newcomer that looked again removes its record.
func (r *Run) Remove(now time.Time, save int) error {
	s := int64(save)
	if err := r.begin(now, r.is(r.fn.By, s), s); err != nil {
		return err
	}
	r.set(0, r.fn.Cur, r.is(r.fn.Worker, r.is(r.fn.By, s)))
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
		Record: int(r.is(r.fn.Rec, h)), Over: r.is(r.fn.Over, h) == 1, Active: r.is(r.fn.Active, h) == 1,
		Seq: int(r.is(r.fn.Gseq, h)), From: r.is(r.fn.Gfrom, h), To: r.is(r.fn.Gto, h), Worker: int(r.is(r.fn.Worker, h)),
	}
}

// Entry returns the save that is the entry of a worker ID, or 0.
func (r *Run) Entry(worker int) int { return int(r.is(r.fn.Cur, int64(worker))) }

// Save returns what the model says of a save that never changes, but for its bounds.
func (r *Run) Save(save int) Save {
	s := int64(save)
	return Save{
		By:   int(r.is(r.fn.By, s)),
		Old:  int(r.is(r.fn.Old, s)),
		Kind: Kind(r.is(r.fn.Kind, s)),
		Seq:  int(r.is(r.fn.Seq, s)),
		From: r.is(r.fn.From, s),
		Name: r.is(r.fn.Name, s),
	}
}

// Bound returns a bound in a save.
func (r *Run) Bound(save, seq int) int64 { return r.is(r.fn.Bound, int64(save), int64(seq)) }

// Epoch returns how often the store has lost the entry of a worker ID.
func (r *Run) Epoch(worker int) int64 { return r.is(r.fn.Epoch, int64(worker)) }

// Made reports whether a save was made.
func (r *Run) Made(save int) bool { return r.is(r.fn.Made, int64(save)) == 1 }
