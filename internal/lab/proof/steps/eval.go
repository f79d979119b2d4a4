package steps

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file evaluates the terms of the model on two given states. A thing of a sort is a number: 0
// means none, or a thing that was never named. A truth value is 1 or 0.

// value evaluates a term.
type value func(*Run) int64

// function is a function that the model declares. Its last argument may be a ClockSeq.
type function struct {
	index int
	sorts []sort // of its arguments, without the state
	bit   uint64 // if it may differ between the states: one of its own; else 0
}

// step is a step of the model: what has to be true of the states before it and after it.
type step struct {
	terms []*Term
	holds []value
}

// relation is the model's steps, ready to be evaluated.
type relation struct {
	functions map[string]*function
	fn        names
	guards    []string
	steps     map[string]step
	slots     int // how many variables it has
	states    int // how many functions may differ between the states
}

// names are the functions that a run sets or asks for. A field has the function's name in the
// model, except that it begins with a capital letter.
type names struct {
	// Of the state.
	Now, Cur, Epoch, Lost, Sent, Made, At, Line, Open, Heir, Born, Rec, Active, Gseq, Gfrom, Gto, Over, Next, Top *function

	// Of a holder, and of a save.
	Worker, Window, Low, By, Kind, Old, Bound, Seq, From, Name *function

	M, Half, Loses, H, S, T *function
}

// resolve looks the names up once, because a run needs them for each step.
func (r *relation) resolve() {
	fields := reflect.ValueOf(&r.fn).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		f, ok := r.functions[name]
		if !ok {
			f = r.functions[strings.ToLower(name)]
		}
		fields.Field(i).Set(reflect.ValueOf(f))
	}
}

var compiled = sync.OnceValue(func() *relation { return compile(Model) })

// compile returns the steps of a model. It panics if the model is not in the language that it
// knows, as lease.smt2 is.
func compile(text string) *relation {
	c := compiler{relation: relation{functions: map[string]*function{}, steps: map[string]step{}}, defs: map[string]*Term{},
		constructors: map[string]int64{}}
	name, inSteps := "", false
	for _, t := range Parse(text) {
		switch {
		case t.Head("declare-datatypes"):
			for i, k := range t.Parts[2].Parts[0].Parts {
				c.constructors[k.Parts[0].Word] = int64(i)
			}
		case t.Head("declare-const"):
			c.declare(t.Parts[1].Word, nil)
		case t.Head("declare-fun"):
			c.declare(t.Parts[1].Word, t.Parts[2].Parts)
		case t.Head("define-fun"):
			c.defs[t.Parts[1].Word] = t
			if isGuard(t) {
				c.guards = append(c.guards, t.Parts[1].Word)
				c.declare(t.Parts[1].Word, nil)
			}
		case t.Head("echo"):
			name = strings.Trim(t.Parts[1].Word, `"`)
		case t.String() == "(assert (invariant x))":
			inSteps = true // from here on
		case inSteps && t.Head("assert") && !t.Parts[1].Head("not"):
			s := step{terms: c.conjuncts(t.Parts[1])}
			for _, t := range s.terms {
				s.holds = append(s.holds, c.value(t, nil))
			}
			c.steps[name] = s
		}
	}
	c.resolve()
	return &c.relation
}

type compiler struct {
	relation
	defs         map[string]*Term
	constructors map[string]int64
}

func (c *compiler) declare(name string, args []*Term) {
	f := &function{index: len(c.functions)}
	for _, a := range args {
		if a.Word == "State" {
			c.states++
			f.bit = 1 << c.states
		} else {
			f.sorts = append(f.sorts, sort(slices.Index(sorts, a.Word)))
		}
	}
	c.functions[name] = f
}

// conjuncts returns the terms that have to be true for t to be.
func (c *compiler) conjuncts(t *Term) (all []*Term) {
	if d, ok := c.defs[t.Word]; ok && len(d.Parts[2].Parts) == 0 && d.Parts[4].Head("and") {
		t = d.Parts[4]
	}
	if !t.Head("and") {
		return []*Term{t}
	}
	for _, p := range t.Parts[1:] {
		all = append(all, c.conjuncts(p)...)
	}
	return all
}

// value compiles t. variables has the slots of the variables in t. Most terms of a step say what
// stays as it was. They are not evaluated unless something of their kind has changed.
func (c *compiler) value(t *Term, variables map[string]int) value {
	v := c.meaning(t, variables)
	if bits := c.same(t); bits != 0 {
		return func(r *Run) int64 {
			if r.dirty&bits == 0 {
				return 1
			}
			return v(r)
		}
	}
	return v
}

// same returns the functions of which t only says that they are the same in both states. If t says
// anything else, same returns 0.
func (c *compiler) same(t *Term) (bits uint64) {
	if d, ok := c.defs[t.first()]; ok {
		return c.same(d.Parts[4])
	}
	switch {
	case t.Head("forall"):
		return c.same(t.Parts[2])
	case t.Head("and"):
		for _, p := range t.Parts[1:] {
			b := c.same(p)
			if b == 0 {
				return 0
			}
			bits |= b
		}
	case t.Head("="):
		y, x := t.Parts[1], t.Parts[2]
		if f, ok := c.functions[y.first()]; ok && y.String() == strings.Replace(x.String(), x.first()+" x", x.first()+" y", 1) {
			return f.bit
		}
	}
	return bits
}

func (c *compiler) meaning(t *Term, variables map[string]int) value {
	if t.Parts == nil {
		return c.word(t.Word, variables)
	}
	name := t.Parts[0].Word
	if name == "forall" {
		return c.forall(t.Parts[1].Parts, t.Parts[2], variables)
	}
	if d, ok := c.defs[name]; ok {
		return c.call(d, t.Parts[1:], variables)
	}
	if f, ok := c.functions[name]; ok {
		return c.lookup(f, t.Parts[1:], variables)
	}
	var args []value
	for _, p := range t.Parts[1:] {
		args = append(args, c.value(p, variables))
	}
	if op, ok := operators[name]; ok {
		return op(args)
	}
	panic(fmt.Sprintf("the model has %s, which has no meaning here", t))
}

func (c *compiler) word(w string, variables map[string]int) value {
	if slot, ok := variables[w]; ok {
		return func(r *Run) int64 { return r.variables[slot] }
	}
	if f, ok := c.functions[w]; ok { // before the definitions: a guard is both
		return func(r *Run) int64 { return r.tables[f.index][0][0] }
	}
	if d, ok := c.defs[w]; ok {
		return c.value(d.Parts[4], nil)
	}
	n, isConstructor := c.constructors[w]
	if number, err := strconv.ParseInt(w, 10, 64); err == nil {
		n = number
	} else if !isConstructor {
		panic(fmt.Sprintf("the model has %q, which has no meaning here", w))
	}
	return func(*Run) int64 { return n }
}

func (c *compiler) slot() int {
	c.slots++
	return c.slots - 1
}

// call evaluates the arguments, and then the body.
func (c *compiler) call(d *Term, args []*Term, variables map[string]int) value {
	inner, slots, values := map[string]int{}, []int{}, []value{}
	for i, p := range d.Parts[2].Parts {
		slots = append(slots, c.slot())
		inner[p.Parts[0].Word] = slots[i]
		values = append(values, c.value(args[i], variables))
	}
	body := c.value(d.Parts[4], inner)
	return func(r *Run) int64 {
		for i, v := range values {
			r.variables[slots[i]] = v(r)
		}
		return body(r)
	}
}

func (c *compiler) lookup(f *function, args []*Term, variables map[string]int) value {
	var values []value
	for _, a := range args {
		values = append(values, c.value(a, variables))
	}
	state := value(func(*Run) int64 { return 0 })
	if f.bit != 0 {
		state, values = values[0], values[1:]
	}
	switch len(values) {
	case 0:
		return func(r *Run) int64 { return r.tables[f.index][state(r)][0] }
	case 1:
		return func(r *Run) int64 { return at(r.tables[f.index][state(r)], values[0](r)) }
	}
	return func(r *Run) int64 {
		return at(r.tables[f.index][state(r)], values[0](r)*r.clockSeqs+values[1](r))
	}
}

// at returns an element of a table that may be shorter, because the rest was never set.
func at(table []int64, i int64) int64 {
	if i < int64(len(table)) {
		return table[i]
	}
	return 0
}

func (c *compiler) forall(bound []*Term, body *Term, variables map[string]int) value {
	inner := map[string]int{}
	for name, slot := range variables {
		inner[name] = slot
	}
	slot := c.slot()
	inner[bound[0].Parts[0].Word] = slot
	kind := slices.Index(sorts, bound[0].Parts[1].Word)
	if kind < 0 {
		panic("the model has a step for all of the sort " + bound[0].Parts[1].Word)
	}
	var each value
	if len(bound) > 1 {
		each = c.forall(bound[1:], body, inner)
	} else {
		each = c.value(body, inner)
	}
	return func(r *Run) int64 {
		for _, thing := range r.things[kind] {
			r.variables[slot] = thing
			if each(r) == 0 {
				return 0
			}
		}
		return 1
	}
}

// sort is a sort that steps quantify over.
type sort int

const (
	aWorker sort = iota
	aHolder
	aClockSeq
	aSave
)

var sorts = []string{"Worker", "Holder", "ClockSeq", "Save"}

func truth(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

var operators = map[string]func([]value) value{
	"and": func(a []value) value {
		return func(r *Run) int64 {
			for _, v := range a {
				if v(r) == 0 {
					return 0
				}
			}
			return 1
		}
	},
	"or": func(a []value) value {
		return func(r *Run) int64 {
			for _, v := range a {
				if v(r) != 0 {
					return 1
				}
			}
			return 0
		}
	},
	"+": func(a []value) value {
		return func(r *Run) (sum int64) {
			for _, v := range a {
				sum += v(r)
			}
			return sum
		}
	},
	"not": func(a []value) value { return func(r *Run) int64 { return 1 - a[0](r) } },
	"=>":  func(a []value) value { return func(r *Run) int64 { return truth(a[0](r) == 0 || a[1](r) != 0) } },
	"=":   func(a []value) value { return func(r *Run) int64 { return truth(a[0](r) == a[1](r)) } },
	"<":   func(a []value) value { return func(r *Run) int64 { return truth(a[0](r) < a[1](r)) } },
	"<=":  func(a []value) value { return func(r *Run) int64 { return truth(a[0](r) <= a[1](r)) } },
	"-":   func(a []value) value { return func(r *Run) int64 { return a[0](r) - a[1](r) } },
	"ite": func(a []value) value {
		return func(r *Run) int64 {
			if a[0](r) != 0 {
				return a[1](r)
			}
			return a[2](r)
		}
	},
}
