package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Mark is a reading of the watermark. It is right whether or not somebody keeps it back.
type Mark struct {
	ID     snowflake.ID // each ID that is issued from now on is greater
	HeldBy *Holder      // who keeps it back by more than two windows; nil: nobody
	Why    string       // why HeldBy keeps it back, for people
}

// Watermark reads the watermark once: an ID below every ID issued from now on under this store.
// If each transaction that issues and stores IDs has a [Lease.Hold], every row whose ID is at or
// below the watermark is there, or never will be. So a poller that reads the rows above its last
// watermark and up to this one misses none. The watermark never falls, as long as the store keeps
// its entries. A process whose record was not renewed for a window no longer keeps the watermark
// back once its bound has passed; docs/watermark.md shows how the database stops it.
//
// A Mark says who keeps the watermark back by more than two windows. A generator with RewindTicks
// keeps it where it was when its window began. If the error is not nil, the Mark is empty: the error
// matches [ErrWiped] if the store has no entries, or ErrBadRecord, or is the store's.
//
// The watermark lags by a third of a window, or by Options.FloorEvery if that is set; and by the
// slowest clock and the oldest open Hold. A holder that dies keeps it back for a window. It is
// never after the latest bound in the store, so it rests when nobody holds a worker ID.
//
// A call costs two to four reads, two of which list all records, and up to three saves. It may be
// called by any number of processes. A program that reads the watermark again and again uses a
// [WatermarkReader], which knows sooner that a holder is dead.
func Watermark(ctx context.Context, s Store) (Mark, error) { return NewWatermarkReader(s).Read(ctx) }

// WatermarkReader reads the watermark again and again, and remembers how long it has seen each
// record unchanged. Its methods may be called by any number of goroutines.
type WatermarkReader struct {
	store Store
	turn  chan struct{} // a lock with room for one, which guards watch
	watch watch
}

// NewWatermarkReader returns a reader of the watermark of s.
func NewWatermarkReader(s Store) *WatermarkReader {
	return &WatermarkReader{s, make(chan struct{}, 1), watch{seen: sightings{}}}
}

// Read reads the watermark, as [Watermark] does.
func (r *WatermarkReader) Read(ctx context.Context) (Mark, error) {
	if err := awaitTurn(ctx, r.turn); err != nil {
		return Mark{}, err
	}
	defer func() { <-r.turn }()
	v := viewer{ctx: ctx, store: r.store, watch: &r.watch}
	if err := v.open(); err != nil {
		return Mark{}, err
	}
	return v.watermark()
}

const watermarkKey = "watermark"

// mark is the entry of the watermark. Neither time falls.
type mark struct {
	Proposed  time.Time `json:"proposed"`  // who takes a worker ID or clock sequence stamps from here on
	Published time.Time `json:"published"` // nothing before it is stamped any more

	version string
	bad     bool // the entry cannot be read
}

// lost reports whether the entry is not there, or cannot be read.
func (m mark) lost() bool { return m.version == "" || m.bad }

// publish returns what may be published if no holder stamps anything before low any more, and all
// others begin at m.Proposed.
func (m mark) publish(low time.Time) time.Time { return later(m.Published, earlier(m.Proposed, low)) }

func getMark(ctx context.Context, s Store) (m mark, err error) {
	e, err := s.Get(ctx, watermarkKey)
	if err == nil && e.Version != "" {
		m.bad = json.Unmarshal(e.Value, &m) != nil
	}
	if errors.Is(err, ErrBadRecord) {
		m.bad, err = true, nil
	}
	if m.bad {
		m = mark{bad: true}
	}
	m.version = e.Version
	return m, err
}

// put saves m in place of the entry with m's version. Of two processes that do so, the second gets
// the mark of the first.
func (m mark) put(ctx context.Context, s Store) (mark, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	e, err := s.Put(ctx, watermarkKey, m.version, value)
	if errors.Is(err, ErrConflict) {
		return getMark(ctx, s)
	}
	m.version, m.bad = e.Version, false
	return m, err
}

// viewer is a process that looks at all holders of a store.
type viewer struct {
	ctx   context.Context
	store Store
	watch *watch
	door  door
	mark  mark
	now   time.Time // by the engine's clock and this host's, whichever is behind
	asked moment    // when the records were asked for
}

// open reads the door and the mark. When the first mark has been made, and before anything is
// proposed, the door says so: then newcomers know if the mark is lost.
func (v *viewer) open() (err error) {
	for {
		v.door, err = getDoor(v.ctx, v.store)
		if bad := errors.Is(err, ErrBadRecord) && v.door.version != ""; err != nil && !bad {
			return err
		}
		if !v.door.Open {
			if err = v.wait(); err != nil {
				return err
			}
			continue
		}
		if v.mark, err = getMark(v.ctx, v.store); err != nil || v.door.Marked {
			return err
		}
		if v.mark.version == "" {
			if err = v.save(mark{}); err != nil {
				return err
			}
		}
		v.door.Marked = true
		if _, err = v.store.Put(v.ctx, doorKey, v.door.version, v.door.encode()); err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// wait counts how long the store and its records are known to be lost, as newcomers do, so that the
// watermark is there again although none comes. It returns nil when the door is open. If nobody ever
// had a worker ID, the store may be new, and wait leaves it alone.
func (v *viewer) wait() error {
	if v.door.Name == "" {
		records, _, err := allRecords(v.ctx, v.store)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.State != Lost {
				v.door.Layout = r.Layout
			}
		}
		if v.door.Layout == (snowflake.Layout{}) {
			return ErrWiped
		}
	}
	c := clocks{own: wallClock(v.ctx)}
	var err error
	if c.engine, err = clockOf(v.ctx, v.store); err != nil {
		return err
	}
	next, left, err := v.watch.advanceDoor(v.ctx, v.store, v.door, v.door, c, false)
	if errors.Is(err, ErrConflict) {
		return ErrWiped
	}
	if v.door = next; err != nil || next.Open {
		return err
	}
	if _, _, err = v.look(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrWiped, waitsFor(left, c))
}

// watermark proposes what the holders allow, looks at them again, and publishes what they allow
// then, up to what was proposed before.
func (v *viewer) watermark() (Mark, error) {
	low, by, err := v.look()
	if err == nil && low.After(v.mark.Proposed) {
		if err = v.save(mark{Proposed: low, Published: v.mark.Published}); err == nil {
			low, by, err = v.look()
		}
	}
	at := v.mark.publish(low)
	for err == nil && at.After(v.mark.Published) {
		err = v.save(mark{Proposed: later(v.mark.Proposed, at), Published: at})
	}
	if err != nil {
		return Mark{}, err
	}
	at, l := v.mark.Published, v.door.Layout
	id, _ := l.Encode(snowflake.Parts{Time: earlier(at, l.Expires().Add(-1))})
	m := Mark{ID: max(0, id-1)} // 0 also if at is before the epoch
	if by != nil && v.now.Sub(at) > 2*by.Window {
		h := by.held()
		m.HeldBy, m.Why = &h, v.why(*by)
	}
	return m, nil
}

// save stores m in place of v.mark, and takes it over; or the mark that another process stored.
func (v *viewer) save(m mark) (err error) {
	m.version = v.mark.version
	v.mark, err = m.put(v.ctx, v.store)
	return err
}

// look returns the instant before which no holder stamps anything any more, and the record that
// keeps it back. It is not after the latest bound, and not after now. If a record is lost or cannot
// be read, nothing is known for as long as a window under it may be open, and the instant is zero.
func (v *viewer) look() (low time.Time, by *Record, err error) {
	c := clocks{own: wallClock(v.ctx)}
	if c.engine, err = clockOf(v.ctx, v.store); err != nil {
		return low, nil, err
	}
	v.now = c.early()
	v.asked = thisMoment()
	found, bad, err := allRecords(v.ctx, v.store)
	if err != nil {
		return low, nil, err
	}
	records := sorted(maps.Values(found))
	var silent []Record
	for worker, why := range bad {
		silent = append(silent, Record{Worker: worker, State: Lost, version: "unreadable", unreadable: why})
	}
	unreadable := len(silent)
	for _, r := range records {
		v.watch.seen.sees(recordKey(r.Worker), r.version)
		if r.State == Held && r.last().Sub(v.now) < r.Window/2 && !v.dead(r, c) { // it was not renewed for half a window
			silent = append(silent, r)
		}
	}
	if err = v.watch.share(v.ctx, v.store, slices.Clone(silent), v.asked); err != nil {
		return low, nil, err
	}
	for _, r := range silent[:unreadable] {
		if v.watch.idle(r, v.asked) < healing(v.door.Layout.Unit) {
			return low, &r, nil
		}
	}
	for i, r := range records { // the waits for all of them go on at once
		if r.State == Lost {
			next, left, err := outwait(v.ctx, v.store, r, v.door.Layout, v.watch.seen, v.asked, c)
			if records[i] = next; err != nil {
				return low, &next, err
			}
			if left > 0 {
				by = &next
			}
		}
	}
	if by != nil {
		return low, by, nil
	}
	low, by = lowest(records, v.now, earlier(v.now, latest(records)), func(r Record) bool { return v.dead(r, c) })
	return low, by, nil
}

// dead reports whether r was not renewed for its window when it was asked for.
func (v *viewer) dead(r Record, c clocks) bool { return !r.live(v.watch.silent(r, v.asked, c)) }

// why says why r keeps the watermark back.
func (v *viewer) why(r Record) string {
	switch {
	case r.unreadable != nil:
		return fmt.Sprintf("what its holder may still stamp is not known, because its record cannot be read: %v", r.unreadable)
	case r.State == Lost:
		return "its record was lost, and a window under it may be open"
	case r.Prior.Least.Before(r.Least) && v.now.Before(r.Prior.To):
		return "not its holder, but an earlier one that was taken for dead may still stamp times before " + formatTime(r.Prior.To)
	case r.NoFloor:
		return "it has no generator, or one that may go back (RewindTicks), and so may stamp any time since it began"
	case r.Copy:
		return "it has a LocalCopy, and may go on without the store, or with another clock sequence"
	case v.watch.idle(r, v.asked) > r.Window/2:
		return "it does not renew, and counts until it is known to be dead and its bound has passed"
	}
	return "it has an open Hold, or its clock is behind"
}

// readers is what a keeper knows of those who read the watermark.
type readers struct {
	version string    // of the watermark's entry
	looked  time.Time // when it was last read,
	changed time.Time // and when it was last found changed
}

// pace shortens the wait until the next renewal to Options.FloorEvery if the watermark has been read within
// a window: then its entry changes. pace looks at it three times in a window, because a look costs a request.
func (r *readers) pace(ctx context.Context, l *Lease, wait time.Duration) time.Duration {
	if l.o.FloorEvery == 0 {
		return wait
	}
	begun := time.Now()
	if begun.Sub(r.looked) > l.o.Window/4 {
		patient, cancel := context.WithTimeout(ctx, l.o.trip())
		defer cancel()
		if m, err := getMark(patient, l.store); err == nil && m.version != r.version {
			r.version, r.changed = m.version, begun
		}
		r.looked = begun
	}
	if begun.Sub(r.changed) < l.o.Window {
		wait = min(wait, l.o.FloorEvery)
	}
	return max(0, wait-time.Since(begun))
}

// holds are the open Holds of a lease, and the first instant that each of them may have stamped.
type holds struct {
	mu   sync.Mutex
	open map[*time.Time]struct{}
}

// Hold keeps the watermark below every ID that the lease's generator issues between Hold and
// done. Call it before a transaction issues its first ID, and call done after the transaction
// has committed or rolled back; it may be called again. A Hold costs no request. It ends with the
// lease, when the process ends, and when the lease has lost its worker ID and the lost window
// has passed.
func (l *Lease) Hold() (done func()) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	from, _ := l.next()
	l.holds.open[&from] = struct{}{}
	return func() {
		l.holds.mu.Lock()
		defer l.holds.mu.Unlock()
		delete(l.holds.open, &from)
	}
}

// next returns the first instant that the generator may still stamp. If ok is false, it may stamp
// all of its grant.
func (l *Lease) next() (at time.Time, ok bool) {
	l.mu.Lock()
	floor := l.bound.Floor
	l.mu.Unlock()
	if floor != nil {
		at = floor()
	}
	if at.IsZero() {
		return l.Grant().From, false
	}
	return at, true
}

// least returns what a save that is made now says of the window w: the first instant that this
// holder may stamp, or that a Hold may have stamped. If noFloor is set, it does not rise. w is the
// present window, or a window that is about to be taken.
func (l *Lease) least(w window) (at time.Time, noFloor bool) {
	at = w.begin()
	if l.grant.Load() != nil {
		next, ok := l.next()
		if noFloor = !ok; !l.granted || noFloor { // until w is granted, the generator stamps the window before
			next = earlier(at, next)
		}
		at = next
	}
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for from := range l.holds.open {
		at = earlier(at, *from)
	}
	return at.UTC(), noFloor
}

// lower notes that the generator may go back to at, so that an open Hold may stamp it.
func (l *Lease) lower(at time.Time) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for from := range l.holds.open {
		*from = earlier(*from, at)
	}
}

// above reads the watermark after a save, and returns the first instant that the saved window may
// stamp: whoever proposes a later one sees what was saved. d is the door if it was read before. If
// the watermark is lost, above puts it back at most, or later than anything that was proposed. own is
// the record before the save. If there is a LocalCopy and the store is away, the window begins at now.
func (l *Lease) above(ctx context.Context, s Store, d door, own Record, most time.Time) (time.Time, error) {
	if l.away() != nil {
		return l.o.now(), nil
	}
	var m mark
	var err error
	if d.version == "" {
		d, err = getDoor(ctx, s)
	}
	if errors.Is(err, ErrBadRecord) { // it counts as lost
		d, err = door{}, nil
	}
	if err == nil {
		m, err = getMark(ctx, s)
	}
	if err == nil && m.lost() && (m.bad || d.version == "" || d.Marked) {
		m, err = l.restoreMark(ctx, s, m, own, most)
	}
	switch {
	case err != nil && l.away() != nil:
		return l.o.now(), nil
	case err != nil:
		return time.Time{}, err
	}
	at := later(m.Proposed, l.passed())
	l.mark.Store(&at)
	return at, nil
}

// restoreMark puts a watermark that was lost back. Nothing later than most was proposed. If most is
// zero, this is not known, and the latest bound takes its place, because nothing later is proposed.
func (l *Lease) restoreMark(ctx context.Context, s Store, m mark, own Record, most time.Time) (mark, error) {
	if most.IsZero() {
		records, _, err := allRecords(ctx, s)
		if err != nil {
			return m, err
		}
		records[own.Worker] = own
		most = later(latest(slices.Collect(maps.Values(records))), l.o.now())
	}
	m.Proposed = most.UTC()
	m, err := m.put(ctx, s)
	if errors.Is(err, ErrBadRecord) {
		err = nil // it cannot be replaced
	}
	m.Proposed = later(m.Proposed, most)
	return m, err
}

// passed returns where the watermark was when above last looked.
func (l *Lease) passed() (at time.Time) {
	if seen := l.mark.Load(); seen != nil {
		at = *seen
	}
	return at
}
