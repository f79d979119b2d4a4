package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// poll reads the watermark again and again, as pollers do: sometimes two at once.
func (w *world) poll(n uint64) {
	r := rand.New(rand.NewPCG(w.Seed, 100+n))
	s := slowDesk{desk{w.store}, w, r}
	if w.Layout.ClockSeqBits > 0 && w.Seed%2 == 0 && !w.sleep(w.Faults/2) { // until it is read, each clock sequence that can be used may be
		return
	}
	for w.sleep(time.Duration(r.Int64N(int64(w.Window/2))) + us) {
		w.mu.Lock()
		least := w.watermark
		w.mu.Unlock()
		id, err := lease.Watermark(context.Background(), s)
		if held := (*lease.WatermarkError)(nil); err != nil && !errors.As(err, &held) {
			if !w.isWiped() && !w.isEnded() {
				w.fail("watermark", "it cannot be read: %v", err)
			}
			continue
		}
		w.logf("watermark: %d, %s: %v", id, w.Layout.Decode(id).Time.Format(timeFormat), err)
		if id < least && !w.isWiped() && !w.isEnded() {
			w.fail("watermark", "it falls from %d to %d", least, id)
		}
		w.mu.Lock()
		if id > w.watermark {
			w.watermark = id
			w.totals.Marks++
		}
		w.mu.Unlock()
	}
}

// slowDesk is the store, with waits before and after requests.
type slowDesk struct {
	desk
	w *world
	r *rand.Rand
}

func (d slowDesk) wait() error {
	most := d.w.Network + us
	if d.r.IntN(8) == 0 {
		most += d.w.Window / 4
	}
	if !d.w.sleep(time.Duration(d.r.Int64N(int64(most)))) {
		return errDead
	}
	return nil
}

// Now is the store's clock, or a reader's that is right.
func (d slowDesk) Now(context.Context) (time.Time, error) { return d.s.machine.Wall(), d.wait() }

func (d slowDesk) Get(ctx context.Context, key string) (lease.Entry, error) {
	if err := d.wait(); err != nil {
		return lease.Entry{}, err
	}
	e, err := d.desk.Get(ctx, key)
	return d.honest(e), err
}

// honest undoes Lie: a store's clock that is wrong by more than a window is a hazard.
func (d slowDesk) honest(e lease.Entry) lease.Entry {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if is := d.s.entries[e.Key]; is.Version == e.Version {
		e.Time = is.Time
	}
	return e
}

func (d slowDesk) List(ctx context.Context, prefix string) (all []lease.Entry, err error) {
	for half := range 2 { // of different moments
		if err := d.wait(); err != nil {
			return nil, err
		}
		found, _ := d.desk.List(ctx, prefix)
		for _, e := range found {
			if int(e.Key[len(e.Key)-1])%2 == half {
				all = append(all, d.honest(e))
			}
		}
	}
	return all, nil
}

func (d slowDesk) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	if err := d.wait(); err != nil {
		return lease.Entry{}, err
	}
	return d.desk.Put(ctx, key, old, value)
}

// transaction is what is known when a call begins.
type transaction struct {
	done      func() // ends the Hold, if there is one
	watermark snowflake.ID
	grant     snowflake.Grant
	heard     time.Time // the lease's last save
}

func (p *process) begins() (t transaction) {
	if p.lease == nil {
		return t
	}
	t.grant = p.lease.Grant()
	p.w.store.mu.Lock()
	t.heard = p.heard
	p.w.store.mu.Unlock()
	if p.w.chance(50) {
		t.done = p.lease.Hold()
	}
	t.watermark = p.w.mark()
	return t
}

func (w *world) mark() snowflake.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watermark
}

// checkWatermark: no ID is at or below a watermark that was read before the call or, if there is a
// Hold, before its end. What may be is an ID of a process that was not heard of for a window and
// whose window the watermark has passed, and of a clone.
func (p *process) checkWatermark(t transaction, ids []snowflake.ID) {
	w := p.w
	if p.lease == nil {
		return
	}
	most := t.watermark
	if t.done != nil {
		most = w.mark()
		t.done()
	}
	passed := w.Layout.Decode(most).Time.Add(w.Layout.Unit)
	w.store.mu.Lock()
	misled := w.OwnClock && w.store.machine.changes() > 1
	silent := w.store.lied || time.Since(t.heard) > p.Window || time.Since(p.late) < p.Window // then it may not have looked yet
	w.store.mu.Unlock()
	if misled { // by the store's clock, a holder that renews may seem dead
		return
	}
	for _, id := range ids {
		parts := w.Layout.Decode(id)
		w.mu.Lock()
		_, common := w.commonWindow(parts.Worker, parts.ClockSeq, parts.Time)
		w.mu.Unlock()
		dead := silent && (!t.grant.To.After(passed) || !p.lease.Grant().To.After(passed))
		if id <= most && !common && !dead {
			w.fail("watermark", "%v issued %d (%v), and the watermark was %d: %v; its grant was %v and is %v, and it was heard of %v ago and late %v ago", p, id, parts, most, passed.Format(timeFormat), t.grant, p.lease.Grant(), time.Since(t.heard), time.Since(p.late))
			return
		}
	}
}

// proposed is where new windows begin at the earliest.
func (s *store) proposed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m struct{ Proposed time.Time }
	_ = json.Unmarshal(s.entries["watermark"].Value, &m)
	return m.Proposed
}
