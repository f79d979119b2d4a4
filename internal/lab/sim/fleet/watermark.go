//go:build go1.25

package fleet

import (
	"context"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// poll reads the watermark repeatedly and checks that it never falls. A poller issues no IDs. In
// one of three seeds each reading is a new reader's, as a command's is.
func (w *world) poll(number int) {
	n := newNode(w, len(w.Nodes)+number, Node{Window: w.Window})
	n.faults.change(Delay, int(w.Window/8))
	s := client{p: newProcess(n, 0)}
	reader := lease.NewWatermarkReader(s)
	// Before the first reading, holders may change to any clock sequence whose bound has passed.
	if w.Layout.ClockSeqBits > 0 && w.Seed%2 == 0 && !w.sleep(w.Faults/2) {
		return
	}
	for w.sleep(w.up(w.Window/2) + us) {
		least := w.mark()
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), seam.Reader{}, n.machine), w.Window)
		if w.Seed%3 == 0 {
			reader = lease.NewWatermarkReader(s)
		}
		m, err := reader.Read(ctx)
		id := m.ID
		cancel()
		if err != nil {
			if !w.isWiped() && !isStoreError(err) {
				w.fail("watermark", "it cannot be read: %v", err)
			}
			continue
		}
		w.logf("watermark: %d, %s: %v", id, w.Layout.Decode(id).Time.Format(timeFormat), m.Why)
		if id < least && !w.isWiped() && !w.isEnded() {
			w.fail("watermark", "it falls from %d to %d", least, id)
		}
		w.mu.Lock()
		if id > w.watermark {
			w.watermark = id
			w.totals["watermarks"]++
		}
		w.mu.Unlock()
	}
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
	t.watermark = p.w.mark()
	return t
}

// mark returns the highest watermark read so far.
func (w *world) mark() snowflake.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watermark
}

// checkWatermark checks that each ID is above every watermark read before the call or, with a Hold,
// before the end of the Hold. Clones are exempt, and so are processes that did not save for a
// window, if the watermark has passed their window.
func (p *process) checkWatermark(t transaction, ids []snowflake.ID) {
	w := p.w
	most := t.watermark
	if t.done != nil {
		most = w.mark()
		t.done()
	}
	passed := w.Layout.Decode(most).Time.Add(w.Layout.Unit)
	w.store.mu.Lock()
	// A process that has just saved may not have read the watermark since.
	silent := w.store.faults.everLied() || time.Since(t.heard) > p.Window || time.Since(p.late) < p.Window
	w.store.mu.Unlock()
	for _, id := range ids {
		parts := w.Layout.Decode(id)
		common := w.isCommon(parts.Worker, parts.ClockSeq, parts.Time)
		dead := silent && (!t.grant.To.After(passed) || !p.lease.Grant().To.After(passed))
		if id <= most && !common && !dead {
			w.fail("watermark", "%v issued %d (%v), and the watermark was %d: %v; "+
				"its grant was %v and is %v, and it was heard of %v ago and late %v ago",
				p, id, parts, most, passed.Format(timeFormat), t.grant, p.lease.Grant(), time.Since(t.heard), time.Since(p.late))
			return
		}
	}
}
