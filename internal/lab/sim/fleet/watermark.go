//go:build go1.25

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// reader reads the watermark, and issues no IDs. In half of the seeds the one of the troubles
// forgets its earlier readings, as a command does, if the clock of its host or of the store then
// tells it which holders are dead.
type reader struct {
	*process
	reading *lease.WatermarkReader
}

func newReader(w *world) *reader {
	r := &reader{process: w.stranger("reader")}
	r.forget()
	return r
}

// forget makes the next reading a new reader's.
func (r *reader) forget() { r.reading = lease.NewWatermarkReader(client{p: r.process}) }

// read reads the watermark, and checks that it never falls.
func (r *reader) read(limit time.Duration) (lease.Mark, error) {
	w := r.w
	least := w.ids.mark()
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), seam.Reader{}, r.machine), limit)
	defer cancel()
	m, err := r.reading.Read(ctx)
	if err != nil {
		return m, err
	}
	if m.ID < least && !w.isWiped() && !w.isEnded() {
		w.fail("watermark", "it falls from %d to %d", least, m.ID)
	}
	if w.ids.raise(m.ID) {
		w.count("watermarks", 1)
	}
	return m, nil
}

// poll reads the watermark over a slow network until the run ends. In one of three seeds each
// reading is a new reader's.
func (w *world) poll() {
	r := newReader(w)
	r.faults.change(Delay, int(w.Window/8))
	// Before the first reading, holders may change to any clock sequence whose bound has passed.
	if w.Layout.ClockSeqBits > 0 && w.Seed%2 == 0 && !w.sleep(w.Faults/2) {
		return
	}
	for w.sleep(w.up(w.Window/2) + us) {
		if w.Seed%3 == 0 {
			r.forget()
		}
		m, err := r.read(w.Window)
		if err == nil {
			w.logf("watermark: %d, %s: %v", m.ID, w.Layout.Decode(m.ID).Time.Format(timeFormat), m.Why)
		} else if !w.isWiped() && !isPromised(err) {
			w.fail("watermark", "it cannot be read: %v", err)
		}
	}
}

// reads reads the watermark until the vigil ends, and measures how late it is.
func (r *reader) reads(v *vigil) {
	w := r.w
	bound := limitsOf(v.trouble.Kind).Watermark
	most := 2*w.Window + w.slack()
	if bound.Lag {
		most = bound.of(w)
	}
	for w.sleep(min(max(w.Window/8, 100*ms), time.Second)) && !v.hasEnded() {
		if w.Seed%4 < 2 && (w.OneHost || w.OwnClock && bound.Plus == 0) {
			r.forget()
		}
		due := w.dueMark(r.machine)
		m, err := r.read(w.Window + w.slack())
		if errors.Is(err, errDead) {
			continue
		}
		late, because := due.Sub(w.Layout.Decode(m.ID).Time), m.Why
		if err != nil {
			late, because = 0, err.Error()
		}
		v.mu.Lock()
		v.lag = max(v.lag, late)
		if err != nil || late > most {
			v.late, v.because = time.Now(), fmt.Sprintf("it is %v behind: %s", late, because)
		}
		v.mu.Unlock()
	}
}

// dueMark returns the time that the watermark follows: the reading of the clock furthest behind,
// but no later than the latest bound.
func (w *world) dueMark(reader *machine) time.Time {
	due := w.now()
	for _, m := range []*machine{reader, w.store.machine} {
		due = times.Earlier(due, m.Wall())
	}
	for _, n := range w.snapshotNodes() {
		if !n.Absent {
			due = times.Earlier(due, n.machine.Wall())
		}
	}
	var bound time.Time
	w.store.mu.Lock()
	for _, is := range w.store.workers {
		bound = times.Later(bound, last(is.record))
	}
	w.store.mu.Unlock()
	return times.Earlier(due, bound)
}

// transaction is the state at the beginning of a call.
type transaction struct {
	done      func() // ends the Hold; nil: there is none
	watermark snowflake.ID
	grant     snowflake.Grant
	heard     time.Time // the process's last save
}

// begins returns the state at the beginning of a call for a number of IDs, and calls Hold at
// random. In a run with troubles no Hold lasts longer than a window, because it would delay the
// watermark.
func (p *process) begins(ids int) (t transaction) {
	t.grant = p.lease.Grant()
	p.w.store.mu.Lock()
	t.heard = p.heard
	p.w.store.mu.Unlock()
	lasts := time.Duration(ids>>p.w.Layout.SequenceBits) * p.w.Layout.Unit
	if p.w.chance(50) && (len(p.w.Troubles) == 0 || lasts < p.w.Window) {
		t.done = p.lease.Hold()
	}
	t.watermark = p.w.ids.mark()
	return t
}

// checkWatermark checks that each ID is above every watermark read before the call or, with a Hold,
// before the end of the Hold. Clones are exempt, and so are processes that did not save for a
// window, if the watermark has passed their window.
func (p *process) checkWatermark(t transaction, ids []snowflake.ID) {
	w := p.w
	most := t.watermark
	if t.done != nil {
		most = w.ids.mark()
		t.done()
	}
	passed := w.Layout.Decode(most).Time.Add(w.Layout.Unit)
	w.store.mu.Lock()
	// A process that has just saved may not have read the watermark since.
	silent := w.store.faults.everLied() || time.Since(t.heard) > p.Window || time.Since(p.late) < p.Window
	w.store.mu.Unlock()
	for _, id := range ids {
		parts := w.Layout.Decode(id)
		common := w.ids.isCommon(parts.Worker, parts.ClockSeq, parts.Time)
		dead := silent && (!t.grant.To.After(passed) || !p.lease.Grant().To.After(passed))
		if id <= most && !common && !dead {
			w.fail("watermark", "%v issued %d (%v), and the watermark was %d: %v; "+
				"its grant was %v and is %v, and it was heard of %v ago and late %v ago",
				p, id, parts, most, passed.Format(timeFormat), t.grant, p.lease.Grant(), time.Since(t.heard), time.Since(p.late))
			return
		}
	}
}
