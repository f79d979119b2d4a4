//go:build go1.25

package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/lab/proof/steps"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// model compares a run with the model of the leases: each act is a step of the model, or two steps.
// An acquisition is a holder, and each request to put a record is a save. A record which says that
// a record was lost counts as no entry, because nobody holds it. A time is the end of its tick.
//
// A step happens when its act does, with two exceptions. A holder that got an answer notes it when
// it grants what the record says or, if it does not grant that, when it sends its next save. A
// newcomer that found no entry gets its answer when it looks at its record again.
type model struct {
	w *world

	mu        sync.Mutex
	run       *steps.Run
	over      bool // nothing more is held against the model
	holders   map[string]*holder
	byNumber  []*holder               // from 1 on
	versions  map[string]int          // the save, by version; 0 if it is not a holder's
	lastSent  int                     // the last save
	names     map[string]int64        // how often the store had lost all when it got a name
	wiped     int64                   // how often it has
	published map[published][]*holder // more than one if the worker ID was lost, and taken again
}

// holder is a holder by its token.
type holder struct {
	number int
	by     *process
	sent   int       // the last save
	got    int       // a Move whose answer is not noted yet; 0: none
	last   time.Time // the tick that it stamped last,
	seq    int       // and the clock sequence
}

// published is a worker ID that a lease has granted.
type published struct {
	lease  any
	worker int
}

// skew is how much clocks may differ if the store loses entries.
const skew = time.Minute

// newModel returns nil if the run has something that the model does not have.
func newModel(w *world) *model {
	if w.LocalCopy {
		return nil
	}
	has := func(is func(e Event) bool) bool { return slices.ContainsFunc(w.Events, is) }
	loses := has(func(e Event) bool { return e.Kind == StoreWiped && e.N%3 == 0 })
	m := &model{
		w: w, run: steps.New(1<<w.Layout.ClockSeqBits, loses, max(lease.MaxWindow, 3*w.Layout.Unit), skew),
		holders: map[string]*holder{}, byNumber: []*holder{nil}, versions: map[string]int{}, names: map[string]int64{},
		published: map[published][]*holder{},
	}
	if w.OwnClock && has(func(e Event) bool { return e.Kind == Lie || e.Kind == StoreStep }) {
		// The model assumes that the store's clock, by which newcomers wait, is right.
		m.run.Without("live-holders-are-left-alone")
		m.run.Without("newcomer-waits")
	}
	seam.Granted = func(l any, token string, worker, seq int, from, to time.Time) {
		m.does(func() error { return m.granted(published{l, worker}, token, seq, from, to) })
	}
	seam.Stamped = func(l any, worker, seq int, t time.Time) {
		m.does(func() error { return m.stamped(published{l, worker}, seq, t) })
	}
	return m
}

// does runs f, unless the comparison has ended. If f returns an error, the run has failed.
func (m *model) does(f func() error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	if err := f(); err != nil {
		m.over = true
		m.w.fail("step", "%v", err)
	}
}

// leave ends the comparison, because something happened that the model does not have. If nothing
// else is checked, it ends the run.
func (m *model) leave(why string) { m.does(func() error { return m.left(why) }) }

// left is leave. m.mu is held.
func (m *model) left(why string) error {
	m.over = true
	m.w.logf("no longer held against the model: %s", why)
	if m.w.Calmed {
		m.w.end()
	}
	return nil
}

// now returns true time.
func (m *model) now() time.Time { return m.w.Start.Add(time.Since(m.w.begun)) }

// tick returns the end of the tick before t, in nanoseconds.
func (m *model) tick(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	epoch, unit := m.w.Layout.Epoch.Time().UnixNano(), int64(m.w.Layout.Unit)
	n := t.UnixNano() - epoch
	ticks := n / unit
	if n%unit > 0 {
		ticks++
	}
	return epoch + ticks*unit
}

func (m *model) bounds(r *record) (all []int64) {
	for seq := range 1 << m.w.Layout.ClockSeqBits {
		bound := boundOf(r, seq)
		if bound.Before(r.Floor) {
			bound = r.Floor
		}
		all = append(all, m.tick(bound))
	}
	return all
}

// sends: a process asks for a save of a record in place of a version. It returns the save, or 0 if
// the version is gone.
func (m *model) sends(p *process, old string, r *record) (save int) {
	m.does(func() error {
		now, found, h := m.now(), m.versions[old], m.holders[r.Token]
		s := steps.Save{Old: found, Seq: r.ClockSeq, From: m.tick(r.From), Name: m.names[r.Store], Bounds: m.bounds(r)}
		switch {
		case h == nil:
			h = &holder{number: m.run.NewHolder(r.Worker, r.Window), by: p}
			m.holders[r.Token], m.byNumber = h, append(m.byNumber, h)
			s.Kind, s.Low = steps.Take, m.found(s, r)
			// Another process was quicker, so the save can never be made.
			if found != 0 && found != m.run.Entry(r.Worker) {
				return nil
			}
		case r.State != lease.StateHeld:
			s.Kind = steps.Release
			if found != 0 && m.run.Save(found).Kind == steps.Restore && m.run.Holder(h.number).Over {
				return m.left("a release found the record lost, and put it back first")
			}
		case found != 0 && m.run.Save(found).By == h.number:
			s.Kind = steps.Move
		default:
			s.Kind, s.Old = steps.Restore, 0
		}
		if err := m.notes(now, h); err != nil {
			return err
		}
		s.By = h.number
		id, err := m.run.Send(now, s)
		save, h.sent, m.lastSent = id, id, id
		if err != nil {
			return of(err, "%v sends: %v, clock sequence %d from %s on", p, r, r.ClockSeq, r.From.Format(timeFormat))
		}
		return nil
	})
	return save
}

// found returns the bounds that a newcomer has found, which it saves again except for its own
// window's.
func (m *model) found(s steps.Save, r *record) []int64 {
	low := slices.Clone(s.Bounds)
	low[s.Seq] = m.tick(r.Floor)
	if s.Old != 0 {
		low[s.Seq] = max(low[s.Seq], m.run.Bound(s.Old, s.Seq))
	}
	low[s.Seq] = min(low[s.Seq], s.From)
	return low
}

// of adds the act to an error.
func of(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// notes: a holder notes the answer to its last Move, if it has not done so. If the Move changed to
// a clock sequence that was not granted, the holder goes on as before.
func (m *model) notes(now time.Time, h *holder) error {
	got := h.got
	if h.got = 0; got == 0 {
		return nil
	}
	granted := m.run.Save(got).Seq == m.run.Holder(h.number).Seq
	return of(m.run.Answer(now, got, granted), "%v gets an answer", h.by)
}

// makes: the store makes a save.
func (m *model) makes(s int, version string, r *record) {
	m.does(func() error {
		now := m.now()
		if s == 0 {
			return fmt.Errorf("the store makes a save in place of a version that is gone: %v", r)
		}
		if m.run.Made(s) {
			return m.left("a request is stored twice")
		}
		// It replaces a newcomer's record.
		if e := m.run.Entry(r.Worker); e != 0 && m.run.Save(s).Kind == steps.Restore {
			if err := m.run.Remove(now, e); err != nil {
				return of(err, "the store puts a record back in place of another: %v", r)
			}
		}
		m.versions[version] = s
		return of(m.run.Arrive(now, s), "the store makes a save: %v", r)
	})
}

// answered: a process gets the answer that its save was made.
func (m *model) answered(old, version string) {
	m.does(func() error {
		s := m.versions[version]
		if s == 0 {
			return nil
		}
		is := m.run.Save(s)
		switch is.Kind {
		case steps.Take:
			if old != "" {
				return m.takes(s)
			}
		case steps.Move:
			m.byNumber[is.By].got = s
		case steps.Restore:
			m.restored(s)
		}
		return nil
	})
}

// takes: a newcomer knows that it has the worker ID.
func (m *model) takes(s int) error {
	h := m.run.Save(s).By
	if m.run.Holder(h).Record != 0 {
		return nil
	}
	return of(m.run.Answer(m.now(), s, true), "%v takes a worker ID", m.byNumber[h].by)
}

// restored: a holder finds that its record was put back. If it is too late, the holder does not go
// on from there, and there is no step.
func (m *model) restored(s int) { _ = m.run.Restored(m.now(), s) }

// sent returns the last save that was sent.
func (m *model) sent() (last int) {
	m.does(func() error { last = m.lastSent; return nil })
	return last
}

// reads: a process reads an entry. since is the last save that was sent when it asked.
func (m *model) reads(p *process, version string, since int) {
	m.does(func() error {
		s := m.versions[version]
		if s == 0 {
			return nil
		}
		is := m.run.Save(s)
		h, now := m.byNumber[is.By], m.now()
		has := m.run.Holder(h.number)
		switch {
		case h.by != p, h.sent > since, has.Record == s, h.got == s, m.run.Entry(has.Worker) != s:
			return nil
		case is.Kind == steps.Take && has.Record == 0:
			if is.Old == 0 && is.Name != m.run.Epoch(has.Worker) {
				return nil
			}
			return m.takes(s)
		case is.Kind == steps.Restore:
			m.restored(s)
			return nil
		}
		h.got = 0
		return of(m.run.Look(now, s), "%v finds its own record", p)
	})
}

// granted: a lease grants a window to its generator.
func (m *model) granted(is published, token string, seq int, from, to time.Time) error {
	h := m.holders[token]
	if h == nil {
		return fmt.Errorf("a lease is granted clock sequence %d from %s to %s, and nobody with its token has asked for a worker ID",
			seq, from.Format(timeFormat), to.Format(timeFormat))
	}
	if !slices.Contains(m.published[is], h) {
		m.published[is] = append(m.published[is], h)
	}
	if got := h.got; got != 0 {
		h.got = 0
		if err := m.run.Answer(m.now(), got, true); err != nil {
			return of(err, "%v is granted more", h.by)
		}
	}
	if has := m.run.Holder(h.number); !has.Active || has.Seq != seq || m.tick(from) < has.From || m.tick(to) > has.To {
		return fmt.Errorf("%v is granted clock sequence %d from %s to %s, and the model grants it %v", h.by, seq,
			from.Format(timeFormat), to.Format(timeFormat), has)
	}
	return nil
}

// stamped: a generator is about to return IDs of a tick.
func (m *model) stamped(is published, seq int, t time.Time) error {
	var h *holder
	for _, h = range m.published[is] {
		if has := m.run.Holder(h.number); has.Seq == seq && has.From <= t.UnixNano() && t.UnixNano() < has.To {
			break // the generator may not have looked at its next grant
		}
	}
	if h == nil {
		return fmt.Errorf("a generator stamps worker ID %d, which its lease never granted", is.worker)
	}
	if h.seq == seq && h.last.Equal(t) {
		return nil // more IDs of the same tick are no other step
	}
	h.seq, h.last = seq, t
	if has := m.run.Holder(h.number); has.Seq != seq {
		return fmt.Errorf("%v stamps clock sequence %d, and the model grants it %v", h.by, seq, has)
	}
	if err := m.run.Stamp(m.now(), h.number, t); err != nil {
		return of(err, "%v stamps %s, and the model grants it %v", h.by, t.Format(timeFormat), m.run.Holder(h.number))
	}
	return nil
}

// removed: a process has removed the record of a worker ID.
func (m *model) removed(version string) {
	m.does(func() error {
		s := m.versions[version]
		if s == 0 {
			return nil
		}
		return of(m.run.Remove(m.now(), s), "%v removes its record", m.byNumber[m.run.Save(s).By].by)
	})
}

// named: the store has got a name.
func (m *model) named(value []byte) {
	m.does(func() error {
		var door struct{ Name string }
		if _, ok := m.names[door.Name]; json.Unmarshal(value, &door) == nil && !ok {
			m.names[door.Name] = m.wiped
		}
		return nil
	})
}

// loses: the store has lost all.
func (m *model) loses() {
	m.does(func() error {
		m.wiped++
		for worker := range m.w.Last + 1 {
			if err := m.run.Lose(m.now(), worker); err != nil {
				return of(err, "the store loses worker ID %d", worker)
			}
		}
		return nil
	})
}

// counts counts the steps that were steps of the model.
func (m *model) counts() {
	if m == nil {
		return
	}
	for name, n := range m.run.Steps {
		switch name {
		case "a holder stamps t":
			m.w.count("stamped ticks", uint64(n))
		case "time passes":
		default:
			m.w.count("steps", uint64(n))
		}
	}
}
