package lease

import (
	"context"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// readers is a keeper's knowledge of the readers of the watermark.
type readers struct {
	begun   time.Time // when it was first asked
	version string    // of the watermark's entry
	looked  time.Time // when it was last read,
	changed time.Time // and when it was last found changed
}

// pace shortens the wait until the next renewal to Options.FloorEvery if the watermark has been
// read within a window: then its entry changes. At the first look, the published time shows this.
// If the entry is lost, the lease puts it back after the next renewal.
func (r *readers) pace(ctx context.Context, l *Lease, wait time.Duration) time.Duration {
	begun := machine.Now()
	if r.begun.IsZero() {
		r.begun = begun
		if l.o.FloorEvery == 0 {
			r.looked = begun // the search has looked
		}
	}
	known := r.version != "" || !l.shown.Load().passed.IsZero()
	if begun.Sub(r.looked) > r.lookEvery(l, known) {
		patient, cancel := context.WithTimeout(ctx, l.o.trip())
		defer cancel()
		m, err := book.GetWatermark(l.line(patient))
		if err == nil && m.Lost() && !known && l.o.FloorEvery == 0 {
			var d protocol.Door
			d, err = book.GetDoor(l.line(patient))
			known = d.Watermarked
		}
		switch {
		case err != nil:
		case m.Bad || m.Lost() && known:
			l.mu.Lock()
			l.wiped = true
			l.mu.Unlock()
		case m.Version != r.version:
			if !r.looked.IsZero() || l.o.now().Sub(m.Published) < l.o.Window {
				r.changed = begun
			}
			r.version = m.Version
		}
		r.looked = begun
	}
	if l.o.FloorEvery > 0 && begun.Sub(r.changed) < l.o.Window {
		wait = min(wait, l.o.FloorEvery)
	}
	return max(0, wait-machine.Since(begun))
}

// lookEvery returns how long a look at the watermark's entry, which costs a request, is enough.
// With Options.FloorEvery the lease looks three times in a window; otherwise once a minute, in case
// the entry is lost. As long as the lease does not know of a watermark, the time doubles up to an
// hour.
func (r *readers) lookEvery(l *Lease, known bool) time.Duration {
	switch {
	case l.o.FloorEvery > 0:
		return l.o.Window / 4
	case known:
		return max(time.Minute, l.o.Window)
	}
	return min(max(time.Minute, l.o.Window, r.looked.Sub(r.begun)), time.Hour)
}
