package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Watermark returns an ID that no ID issued from now on under this store is at or below. If
// each transaction that issues and stores IDs has a [Lease.Hold], every row whose ID is at or
// below the watermark is there, or never will be: so a poller that reads the rows above its last
// watermark and up to this one misses none. The watermark never falls, as long as the store
// keeps its entries. A process whose record was not renewed for a window no longer keeps the
// watermark back; docs/watermark.md shows how the database stops it.
//
// If a holder keeps the watermark back by more than two of its windows, the error is a
// [*WatermarkError], which names the holder. The ID is right all the same. A generator with
// RewindTicks keeps the watermark where it was when its window began. With all other
// errors it is 0. They match [ErrWiped] if the store has no entries, and ErrBadRecord, or are
// the store's. The first watermark of a store that is in use is the time of the call, or earlier.
//
// The watermark lags by a third of a window, or by Options.FloorEvery if that is set; and by the slowest
// clock and the oldest open Hold.
//
// A call costs two to four reads, two of which list all records, and up to two saves. It may be
// called by any number of processes. If the store has no clock, only a process that has called it
// for a window knows that a holder is dead, and the hosts' clocks say how high the watermark may
// rise.
func Watermark(ctx context.Context, s Store) (snowflake.ID, error) {
	v := viewer{ctx: ctx, store: s}
	if err := v.open(); err != nil {
		return 0, err
	}
	at, err := v.watermark()
	if err != nil && !errors.As(err, new(*WatermarkError)) {
		return 0, err
	}
	l := v.door.Layout
	id, _ := l.Encode(snowflake.Parts{Time: earlier(at, l.Expires().Add(-1))})
	return max(0, id-1), err // 0 also if at is before the epoch
}

// WatermarkError says which holder keeps the watermark back.
type WatermarkError struct {
	Holder Record        // of the worker ID
	At     time.Time     // the IDs with times before At are at or below the watermark
	Behind time.Duration // how long ago At was, by the clock of the engine or, if it has no clock, of this host
	Why    string        // for people
}

func (e *WatermarkError) Error() string {
	return fmt.Sprintf("lease: the watermark is at %s, %v ago: %s: %v", formatTime(e.At), e.Behind.Round(time.Millisecond), e.Why, e.Holder)
}

const watermarkKey = "watermark"

// mark is the entry of the watermark. Neither time falls.
type mark struct {
	Proposed  time.Time `json:"proposed"`  // who takes a worker ID or clock sequence stamps from here on
	Published time.Time `json:"published"` // nothing before it is stamped any more

	version string
}

// publish returns what may be published if no holder stamps anything before low any more, and all
// others begin at m.Proposed.
func (m mark) publish(low time.Time) time.Time { return later(m.Published, earlier(m.Proposed, low)) }

func getMark(ctx context.Context, s Store) (m mark, err error) {
	e, err := s.Get(ctx, watermarkKey)
	if err != nil || e.Version == "" {
		return m, err
	}
	if err := json.Unmarshal(e.Value, &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrBadRecord, e.Key, err)
	}
	m.version = e.Version
	return m, nil
}

// viewer is a process that looks at all holders of a store.
type viewer struct {
	ctx    context.Context
	store  Store
	door   door
	mark   mark
	engine time.Time // zero if the engine has no clock
	now    time.Time // the engine's time or, if it has no clock, this host's
	asked  time.Time // when the records were asked for
}

// open reads the door and the mark. When the first mark has been made, and before anything is
// proposed, the door says so: then newcomers know if the mark is lost.
func (v *viewer) open() (err error) {
	for {
		if v.door, err = getDoor(v.ctx, v.store); err != nil {
			return err
		}
		if !v.door.Open {
			return ErrWiped
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

// watermark proposes what the holders allow, looks at them again, and publishes what they allow
// then, up to what was proposed before.
func (v *viewer) watermark() (time.Time, error) {
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
		return at, err
	}
	at = v.mark.Published
	if behind := v.now.Sub(at); by != nil && behind > 2*by.Window {
		return at, &WatermarkError{Holder: *by, At: at, Behind: behind, Why: v.why(*by)}
	}
	return at, nil
}

// save stores m in place of v.mark, and takes it over; or the mark that another process stored.
func (v *viewer) save(m mark) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	e, err := v.store.Put(v.ctx, watermarkKey, v.mark.version, value)
	if errors.Is(err, ErrConflict) {
		v.mark, err = getMark(v.ctx, v.store)
		return err
	}
	m.version, v.mark = e.Version, m
	return err
}

// look returns the instant before which no holder stamps anything any more, up to now, and the
// record that keeps it back. If a record is lost, nothing is known, and the instant is zero.
func (v *viewer) look() (low time.Time, by *Record, err error) {
	if v.engine, err = clockOf(v.ctx, v.store); err != nil {
		return low, nil, err
	}
	if v.now = v.engine; v.now.IsZero() {
		v.now = time.Now().Round(0)
	}
	v.asked = time.Now()
	found, bad, err := allRecords(v.ctx, v.store)
	for _, unreadable := range bad {
		err = cmp.Or(err, unreadable)
	}
	if err != nil {
		return low, nil, err
	}
	records := sorted(maps.Values(found))
	for i, r := range records {
		if r.State == Lost {
			next, left, err := outwait(v.ctx, v.store, r, v.door.Layout, v.idle(r), v.now, v.engine)
			if records[i] = next; err != nil || left > 0 {
				return low, &next, err
			}
		}
	}
	low, by = lowest(records, v.now, v.idle)
	return low, by, nil
}

// watched has what this process saw of the stores whose watermark it read, by their names.
var watched = struct {
	sync.Mutex
	stores map[string]sightings
}{stores: map[string]sightings{}}

// idle returns for how long a record is known not to have changed when it was asked for. It may have changed since.
func (v *viewer) idle(r Record) time.Duration {
	watched.Lock()
	defer watched.Unlock()
	seen := watched.stores[v.door.Name]
	if seen == nil {
		seen = sightings{}
		watched.stores[v.door.Name] = seen
	}
	idle := seen.idle(recordKey(r.Worker), r.version, r.Renewed, v.engine)
	if v.engine.IsZero() {
		idle -= time.Since(v.asked)
	}
	return idle
}

// why says why r keeps the watermark back.
func (v *viewer) why(r Record) string {
	switch {
	case r.State == Lost:
		return "what its holder may still stamp is not known"
	case r.Prior.Least.Before(r.Least) && v.mark.Published.Before(r.Prior.To):
		return "not its holder, but an earlier one that was taken for dead may still stamp times before " + formatTime(r.Prior.To)
	case r.NoFloor:
		return "it has no generator, or one that may go back (RewindTicks), and so may stamp any time since it began"
	case r.Copy:
		return "it has a LocalCopy, and may go on without the store, or with another clock sequence"
	case v.idle(r) > r.Window/2:
		return "it does not renew, and counts until it is dead and its bound has passed"
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

// above returns from where on a window may be stamped that has been saved just now: from what was
// proposed before, because whoever proposes more sees what was saved. d is the door if it was read
// before. The mark is made before the door says so. If the mark is lost, above returns lost. If there is a LocalCopy and the store is away,
// the bound decides (lowest).
func (l *Lease) above(ctx context.Context, s Store, d door, lost time.Time) (time.Time, error) {
	if l.away() != nil {
		return time.Time{}, nil
	}
	var m mark
	var err error
	if d.version == "" {
		d, err = getDoor(ctx, s)
	}
	if err == nil {
		m, err = getMark(ctx, s)
	}
	switch {
	case err != nil && l.away() != nil:
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	case m.version == "" && (d.version == "" || d.Marked):
		m.Proposed = lost
	}
	at := later(m.Proposed, l.passed())
	l.mark.Store(&at)
	return at, nil
}

// passed returns where the watermark was when above last looked.
func (l *Lease) passed() (at time.Time) {
	if seen := l.mark.Load(); seen != nil {
		at = *seen
	}
	return at
}
