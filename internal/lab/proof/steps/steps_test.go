package steps

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// walk tries random acts, of which some are steps of the model. Times are a few nanoseconds.
type walk struct {
	*rand.Rand
	run   *Run
	other *Run // its quantifiers range over all things; it has to say the same
	now   int64
	saves []int
	h     []int // holders
	last  int   // the last one that acted
}

const clockSeqs = 2

func newWalk(seed uint64) *walk {
	w := &walk{Rand: rand.New(rand.NewPCG(seed, 7)), saves: []int{0}, now: 100}
	loses := w.IntN(4) > 0
	w.run, w.other = New(clockSeqs, loses, 8, 4), New(clockSeqs, loses, 8, 4)
	w.other.whole = true
	for range 4 {
		window := time.Duration(4 + w.IntN(5))
		w.h = append(w.h, w.run.NewHolder(0, window))
		w.other.NewHolder(0, window)
	}
	w.last = w.h[0]
	return w
}

// near returns a number near n.
func (w *walk) near(n int64) int64 { return n + max(0, int64(w.IntN(8))-4)*int64(1-2*w.IntN(2)) }

func pick[T any](w *walk, from []T) T { return from[w.IntN(len(from))] }

// act tries an act, and returns the error of the model.
func (w *walk) act(t *testing.T) error {
	w.now += max(0, int64(w.IntN(36))-30)
	now := time.Unix(0, w.now)
	if w.IntN(4) == 0 {
		w.last = pick(w, w.h)
	}
	h, s := w.last, pick(w, w.saves)
	is := w.run.Holder(h)
	if w.IntN(4) > 0 { // something that is there
		s = pick(w, []int{is.Record, w.run.Entry(is.Worker), w.saves[len(w.saves)-1]})
	}
	var do func(*Run) (int, error)
	none := func(err error) (int, error) { return 0, err }
	k := w.IntN(12)
	if w.IntN(3) == 0 { // what comes next
		s = w.saves[len(w.saves)-1]
		if k = 5; w.run.Made(s) {
			k = 7 + w.IntN(2)
		}
	}
	switch {
	case k < 5:
		old := pick(w, []int{is.Record, is.Record, w.run.Entry(is.Worker), 0, s})
		save := Save{
			By:   h,
			Old:  old,
			Kind: Kind(w.IntN(4)),
			Seq:  w.IntN(clockSeqs),
			From: w.near(w.now - int64(w.IntN(40))),
			Name: w.run.Epoch(is.Worker),
		}
		if is.Record == 0 {
			save.Kind = Take
		} else if w.IntN(4) > 0 {
			save.Name = w.run.Save(is.Record).Name
		}
		if save.Kind == Restore {
			save.Old = 0
		}
		for c := range clockSeqs {
			bound := w.near(w.now + int64(w.IntN(12)))
			if w.IntN(4) > 0 {
				bound = w.run.Bound(pick(w, []int{old, is.Record, w.run.Entry(is.Worker)}), c) + int64(w.IntN(6)*w.IntN(2))
			}
			if w.IntN(4) > 0 && save.Kind == Restore {
				bound = w.run.Bound(is.Record, c)
			} else if w.IntN(4) > 0 && save.Kind == Release {
				bound = w.run.Bound(is.Record, c) - w.Int64N(3)
			}
			save.Bounds = append(save.Bounds, bound)
			save.Low = append(save.Low, min(bound, w.near(pick(w, []int64{w.now, w.run.Bound(old, c)}))))
		}
		if w.IntN(4) > 0 {
			save.From = max(save.From, save.Low[save.Seq])
		}
		do = func(r *Run) (int, error) { return r.Send(now, save) }
	case k < 7:
		do = func(r *Run) (int, error) { return none(r.Arrive(now, s)) }
	case k < 8:
		granted := w.IntN(4) > 0
		do = func(r *Run) (int, error) { return none(r.Answer(now, s, granted)) }
	case k < 9:
		do = func(r *Run) (int, error) {
			if r.Save(s).Kind == Restore {
				return none(r.Restored(now, s))
			}
			return none(r.Look(now, s))
		}
	case k < 11:
		tick := time.Unix(0, is.From-1+w.Int64N(3+max(0, is.To-is.From)))
		do = func(r *Run) (int, error) { return none(r.Stamp(now, h, tick)) }
	case w.IntN(4) > 0:
		do = func(r *Run) (int, error) { return none(r.Remove(now, s)) }
	default:
		do = func(r *Run) (int, error) { return none(r.Lose(now, is.Worker)) }
	}
	id, err := do(w.run)
	_, other := do(w.other)
	require.Equal(t, err, other, "it matters over which things the quantifiers range")
	if id != 0 {
		w.saves = append(w.saves, id)
	}
	return err
}

// Each guard refuses an act that would be a step without it, and each step happens. The guard
// release-stops-first says what a step changes, and not when it may happen: without it, Stamp goes
// on.
func TestEachGuardRefusesAnActAndEachStepHappens(t *testing.T) {
	refused, happened := map[string]bool{"release-stops-first": true}, map[string]bool{}
	for seed := range uint64(depth.Of(300, 3000)) {
		w := newWalk(seed)
		for range 150 {
			err := w.act(t)
			if e := new(NoStepError); errors.As(err, &e) {
				for _, g := range e.Guards {
					refused[g] = refused[g] || !strings.Contains(g, " and ")
				}
			}
		}
		for name := range w.run.Steps {
			happened[name] = true
		}
	}
	for _, g := range Guards(Model) {
		assert.True(t, refused[g], g)
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(compiled().steps)), slices.Collect(maps.Keys(happened)))
}

// A step that changes more than the model says is not a step of the model.
func TestStepThatChangesMoreIsRefused(t *testing.T) {
	r := New(clockSeqs, true, 8, 4)
	h := int64(r.NewHolder(0, 8))
	changes := 0
	for name, f := range r.functions {
		if f.bit == 0 || f == r.fn.Now {
			continue
		}
		changes++
		r.about(h, 0)
		r.set(r.is(r.fn.Now)+1, r.fn.Now)
		r.set(1, f, []int64{1, 1}[:len(f.sorts)]...)
		require.Errorf(t, r.end("time passes"), "and %s changes", name)
	}
	assert.Equal(t, 18, changes)
	r.about(h, 0)
	r.set(r.is(r.fn.Now)+1, r.fn.Now)
	require.NoError(t, r.end("time passes"))
}
