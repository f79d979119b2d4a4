//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// A scope with a local copy has one owner and one directory, and several processes of that owner:
// one follows when another has crashed or lost its worker ID. Requests to the directory are served
// at once. So no other process changes the directory between two requests to the store, and a
// process that crashes has saved all that it had to.

// copyPrefix begins the keys of the local copy's entries in a world.
const copyPrefix = "copy/"

// The forms in the directory and in the versions of its records: see localcopy.Store.
const (
	wanted      = "wanted\n"
	fromHere    = "here "
	identityKey = "identity"
)

// sent is a request that failed, or whose process has crashed. The store may serve it all the same.
type sent struct {
	query
	by int // process
}

// sendLate keeps a request, in an order that does not depend on when it failed.
func (w *world) sendLate(i int, q query) {
	w.late = append(slices.Clip(w.late), sent{q, i})
	slices.SortFunc(w.late, func(x, y sent) int { return strings.Compare(x.String(), y.String()) })
}

func (q *query) String() string { return fmt.Sprint(q.do, q.key, q.old, string(q.value)) }

// stale reports whether a request can no longer change anything.
func (w *world) stale(a sent) bool {
	is := w.entries[a.key].Version
	return is != a.old && (a.old != "" || w.most[lose] == 0)
}

// calm reports whether no process of the scope changes the entry in a way that others notice.
func (w *world) calm(key string) bool {
	switch {
	case w.unordered:
		return false
	case strings.HasPrefix(key, book.OwnerPrefix), key == identityKey:
		return true
	case key == book.DoorKey:
		return w.most[lose]+w.most[garble]+w.readers == 0
	case strings.HasPrefix(key, book.MarkPrefix):
		return w.most[lose] == 0
	case key == book.WatermarkKey:
		return w.most[garble]+w.readers == 0
	}
	return key == book.SilenceKey && !w.silence
}

// serveFor lets the store serve a request of p.
func (w *world) serveFor(p *process, q query) reply {
	if w.away {
		return reply{err: errDown}
	}
	was := w.entries[q.key]
	err := w.serve(&q)
	if err == nil && q.do == "put" && !w.copies { // with a local copy, the record there counts
		w.checkSave(p, &q, was)
	}
	if err == nil && q.saves() {
		if w.now-p.heardOf > w.span() && p.rested != nil {
			p.late = w.now
		}
		p.heardOf = w.now
	}
	return reply{entries: q.entries, err: err}
}

// serveCopy lets the local copy serve a request of p.
func (w *world) serveCopy(p *process, q query) (r reply) {
	here := q
	here.key = copyPrefix + q.key
	was := w.entries[here.key]
	r.err = w.serve(&here)
	for _, e := range here.entries {
		e.Key = strings.TrimPrefix(e.Key, copyPrefix)
		r.entries = append(r.entries, e)
	}
	if r.err == nil && q.do == "put" {
		was.Value = bytes.TrimPrefix(was.Value, []byte(wanted)) // as it was before it was taken
		w.checkSave(p, &q, was)
	}
	w.tell("%s (copy)", w.told(p, &q, r.err))
	return r
}

// serve is the store.
func (w *world) serve(q *query) error {
	if q.do == "get" || q.do == "list" {
		q.read(w.entries)
		return nil
	}
	if is := w.entries[q.key]; is.Version != q.old || q.do == "delete" && q.old == "" {
		return ErrConflict
	}
	w.store(q)
	return nil
}

// store stores or deletes an entry, whatever was there.
func (w *world) store(q *query) {
	if q.do == "delete" {
		w.entries = maps.Clone(w.entries)
		delete(w.entries, q.key)
		return
	}
	n := w.versions[q.key] + 1
	e := Entry{Key: q.key, Version: strconv.Itoa(n), Value: q.value}
	if !w.clockless {
		e.Time = w.time()
	}
	w.versions, w.entries = with(w.versions, q.key, n), with(w.entries, q.key, e)
	q.entries = []Entry{e}
}

// lose loses the entries with a prefix.
func (w *world) lose(prefix string) {
	w.entries = maps.Clone(w.entries)
	maps.DeleteFunc(w.entries, func(key string, _ Entry) bool { return strings.HasPrefix(key, prefix) })
	w.tell("the entries %q are lost", prefix+"*")
}

// line is the line of the world itself to its store.
func (w *world) line() book.Line {
	return book.LineTo(context.Background(), asks(func(_ context.Context, q *query) error { return w.serve(q) }))
}

// time returns the time of all clocks that are right. It is in the middle of a tick, so that
// windows end within ticks.
func (w *world) time() time.Time { return w.began.Add(time.Duration(w.now)*tick + tick/2) }

// told describes a request that the store has served.
func (w *world) told(p *process, q *query, err error) string {
	if w.words == nil {
		return ""
	}
	what := ""
	if worker, ok := book.WorkerOf(book.RecordPrefix, q.key); ok && q.writes() {
		r, _ := protocol.DecodeRecord(worker, Entry{Version: "x", Value: q.value})
		what = fmt.Sprintf(": %s by %s (%s), clock sequence %d, from %s to %s", r.State, r.Owner, r.Token, r.ClockSeq, w.at(r.From), w.at(r.Bound()))
	}
	if err != nil {
		what += fmt.Sprintf(" (%v)", err)
	}
	return fmt.Sprintf("%s: %s %s%s", p.name, q.do, q.key, what)
}

// copied returns the entries of the local copy.
func (w *world) copied() map[string]Entry {
	all := maps.Clone(w.entries)
	maps.DeleteFunc(all, func(key string, _ Entry) bool { return !strings.HasPrefix(key, copyPrefix) })
	return all
}

// mayRestore reports whether the local copy may be restored: the store has all records of the
// copy and does not go away later, and no earlier holder is up, who would find its version again.
// Otherwise IDs repeat: see the hazard of Options.LocalCopy.
func (w *world) mayRestore() bool {
	if w.away || w.procs[len(w.procs)-1].begun && len(w.up()) > 0 {
		return false
	}
	for key, e := range w.copied() {
		key = strings.TrimPrefix(key, copyPrefix)
		if strings.HasPrefix(key, book.RecordPrefix) && string(w.entries[key].Value) != string(e.Value) {
			return false
		}
	}
	return true
}

// mayKeep reports whether the owner of the local copy, if there is one, may have the worker ID of
// r: the record is not kept for another owner, such as this one before the directory was removed,
// and its copy is there.
func (w *world) mayKeep(r protocol.Record) bool {
	identity, here := w.entries[copyPrefix+identityKey], w.entries[copyPrefix+book.RecordKey(r.Worker)]
	return !w.copies || r.Version == "" || r.Owner == "A @"+string(identity.Value) && here.Version != ""
}

// version returns the version of an entry: in the local copy if was is from there.
func (w *world) version(key, was string) string {
	if strings.HasPrefix(was, fromHere) {
		return fromHere + w.entries[copyPrefix+key].Version
	}
	return w.entries[key].Version
}
