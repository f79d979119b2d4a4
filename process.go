package snowflake

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
)

// made has each Generator that New made with Options.Clock nil, for good: a later one with the same
// fields would repeat its IDs, even if the program has dropped it.
var made = struct {
	sync.Mutex
	under map[numbering]map[ID]map[ID]entry // by the bits that name a generator, and their value
}{under: map[numbering]map[ID]map[ID]entry{}}

// numbering is equal for two layouts if they give one tick the same IDs.
type numbering struct {
	epoch     Epoch
	unit      time.Duration
	timeShift int
}

// entry is a Generator of the process, with its worker and options.
type entry struct {
	g      *Generator
	worker int
	opts   Options
}

// ofProcess returns the Generator that this process has for the worker. It makes one if there is
// none.
func ofProcess(worker int, o *Options) (*Generator, error) {
	g, err := findOrKeep(entry{nil, worker, *o})
	if err != nil {
		return nil, err
	}
	if g == nil {
		// The table is not locked, because a warning may go to a handler that calls New.
		n, err := newGenerator(worker, nil, o)
		if err != nil {
			return nil, err
		}
		if g, err = findOrKeep(entry{n, worker, *o}); g == n || err != nil {
			return g, err
		}
	}
	if err := g.continueAfter(o); err != nil {
		return nil, err
	}
	return g, nil
}

// findOrKeep returns the Generator in the table that could issue the IDs of e. If there is none, it
// adds e, unless e has no Generator, and returns e's. The error matches ErrInUse if the Generator
// in the table has other options.
func findOrKeep(e entry) (*Generator, error) {
	l := e.opts.Layout
	under, names, fixed := numbering{l.Epoch, l.Unit, l.timeShift()}, l.names(), e.fixed()
	made.Lock()
	defer made.Unlock()
	old, found := made.under[under][names][fixed]
	if !found {
		old, found = meeting(made.under[under], names, fixed)
	}
	switch {
	case found:
		if d := old.differences(e); d != "" {
			return nil, fmt.Errorf("%w: this process has a Generator for %v, whose %s: pass its options, or use another worker ID; "+
				"in a test or a simulation, whose IDs are stored nowhere, set Options.Clock", ErrInUse, old, d)
		}
		return old.g, nil
	case e.g != nil:
		if made.under[under] == nil {
			made.under[under] = map[ID]map[ID]entry{}
		}
		if made.under[under][names] == nil {
			made.under[under][names] = map[ID]entry{}
		}
		made.under[under][names][fixed] = e
	}
	return e.g, nil
}

// meeting returns an entry that can issue the IDs of a generator whose name has other bits, because
// the widths of their fields differ.
func meeting(all map[ID]map[ID]entry, names, fixed ID) (entry, bool) {
	for others, group := range all {
		if others == names {
			continue
		}
		for value, old := range group {
			if (value^fixed)&names&others == 0 {
				return old, true
			}
		}
	}
	return entry{}, false
}

func (e entry) String() string {
	if e.opts.Layout.DatacenterBits > 0 {
		return fmt.Sprintf("worker %d of datacenter %d", e.worker, e.opts.Datacenter)
	}
	return fmt.Sprintf("worker %d", e.worker)
}

func (e entry) fixed() ID { return e.opts.Layout.fixed(0, e.opts.Datacenter, e.worker) }

// names returns the bits of an ID that name its generator: those of the datacenter and the worker.
func (l Layout) names() ID {
	return ID(lowBits(l.DatacenterBits)<<l.datacenterShift() | lowBits(l.WorkerBits)<<l.workerShift())
}

// differences says which options of e and f differ. If none do, it returns "".
func (e entry) differences(f entry) string {
	var all []string
	note := func(option string, same bool, was, is any) {
		if !same {
			all = append(all, fmt.Sprintf("%s is %v, not %v", option, was, is))
		}
	}
	a, b := &e.opts, &f.opts
	note("Layout", a.Layout == b.Layout, a.Layout, b.Layout)
	if !samePolicy(a.OnBackward, b.OnBackward) {
		all = append(all, "OnBackward is "+policyNames(a.OnBackward, b.OnBackward))
	}
	note("BorrowAhead", a.BorrowAhead == b.BorrowAhead, a.BorrowAhead, b.BorrowAhead)
	note("RewindTicks", a.RewindTicks == b.RewindTicks, a.RewindTicks, b.RewindTicks)
	note("RandomStart", a.RandomStart == b.RandomStart, a.RandomStart, b.RandomStart)
	return strings.Join(all, ", and whose ")
}

// samePolicy reports whether a and b are known to make the same choices. Policies that cannot be
// compared are not: two functions with the same code may use different variables.
func samePolicy(a, b BackwardPolicy) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// policyNames describes two policies that are not known to be the same.
func policyNames(was, is BackwardPolicy) string {
	a, b := policyName(was), policyName(is)
	switch {
	case a != b:
		return a + ", not " + b
	case !reflect.ValueOf(was).Comparable():
		return a + ", which cannot be compared (set OnBackward to a pointer to it)"
	}
	return a + ", not this one"
}

// policyName returns p as programs write it, if p is a policy of this package.
func policyName(p BackwardPolicy) string {
	switch p := p.(type) {
	case waitPolicy:
		return fmt.Sprintf("WaitPolicy(%v)", p.max)
	case choice:
		return map[Action]string{ActionFail: "FailPolicy()", ActionBump: "ClockSeqPolicy()", ActionRewind: "RewindPolicy()"}[Action(p)]
	}
	return fmt.Sprintf("a %T", p)
}

// continueAfter makes all later IDs of g greater than o.After.
func (g *Generator) continueAfter(o *Options) error {
	g.lock()
	g.until.Store(noTick) // the last reading may be one of another testing/synctest bubble
	if o.After == 0 {
		g.unlock()
		return nil
	}
	now, err := g.refresh()
	if err == nil {
		err = o.checkAfter(now)
	}
	moved := err == nil && g.seq.skipTo(o.After)
	g.unlock()
	if moved {
		o.warnOfOldAfter(now)
	}
	return err
}
