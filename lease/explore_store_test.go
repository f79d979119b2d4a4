//go:build go1.25

package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// sent is a request that failed, or whose process has crashed. It may arrive all the same.
type sent struct {
	query
	by int // the process
}

// later keeps a request, in an order that does not depend on when it failed.
func (w *world) sendsLate(i int, q query) {
	w.late = append(slices.Clip(w.late), sent{q, i})
	slices.SortFunc(w.late, func(x, y sent) int { return strings.Compare(x.String(), y.String()) })
}

func (q *query) String() string { return fmt.Sprint(q.do, q.key, q.old, string(q.value)) }

// calm reports whether no process of the scope changes the entry in a way that others notice.
func (w *world) calm(key string) bool {
	switch {
	case w.unordered:
		return false
	case strings.HasPrefix(key, book.OwnerPrefix), key == identityKey:
		return true
	case key == book.DoorKey:
		return w.losses+w.garbles+w.readers == 0
	case strings.HasPrefix(key, book.MarkPrefix):
		return w.losses == 0
	case key == book.WatermarkKey:
		return w.garbles+w.readers == 0
	case key == book.SilenceKey: // a scope has it
		return !w.silence
	}
	return false
}

// make lets the store do what a process asks for.
func (w *world) make(p *process, q query) (r reply) {
	if w.gone {
		return reply{err: errDown}
	}
	was := w.entries[q.key]
	if r.err = w.serve(&q); r.err != nil || q.do != "put" {
		r.entries = q.entries
		return r
	}
	r.entries = q.entries
	if !w.copies { // the record in the local copy counts
		w.saves(p, &q, was)
	}
	if q.saves() {
		if w.now-p.heardOf > w.span() && p.lease != nil {
			p.late = w.now
		}
		p.heardOf = w.now
	}
	return r
}

// serve is the store.
func (w *world) serve(q *query) error {
	is := w.entries[q.key]
	switch q.do {
	case "get":
		q.entries = []Entry{is}
	case "list":
		for _, key := range slices.Sorted(maps.Keys(w.entries)) {
			if strings.HasPrefix(key, q.key) {
				q.entries = append(q.entries, w.entries[key])
			}
		}
	case "now":
		if w.clockless {
			return errors.ErrUnsupported
		}
		q.entries = []Entry{{Time: w.time()}}
	default:
		if is.Version != q.old || q.do == "delete" && q.old == "" {
			return ErrConflict
		}
		w.stores(q)
	}
	return nil
}

// stores stores or deletes an entry, whatever was there.
func (w *world) stores(q *query) {
	if q.do == "delete" {
		w.loses(func(key string) bool { return key == q.key })
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

// loses loses entries.
func (w *world) loses(which func(key string) bool) {
	w.entries = maps.Clone(w.entries)
	maps.DeleteFunc(w.entries, func(key string, _ Entry) bool { return which(key) })
}

// line returns the line of whoever has no lease.
func (w *world) line() book.Line {
	return book.LineTo(context.Background(), asks(func(_ context.Context, q *query) error { return w.serve(q) }))
}

// time is the time of all clocks that are right, in the middle of a tick. So windows end within
// ticks.
func (w *world) time() time.Time { return w.began.Add(time.Duration(w.now)*tick + tick/2) }

// stale reports whether a request will never change anything any more.
func (w *world) stale(a sent) bool {
	is := w.entries[a.key].Version
	return is != a.old && (a.old != "" || w.losses == 0)
}

// told says what the store has done.
func (w *world) told(p *process, q *query, err error) string {
	if w.words == nil {
		return ""
	}
	what := ""
	if worker, ok := book.WorkerOf(book.RecordPrefix, q.key); ok && q.writes() {
		rec, _ := protocol.DecodeRecord(worker, Entry{Version: "x", Value: q.value})
		what = fmt.Sprintf(": %s by %s (%s), clock sequence %d, from %s to %s", rec.State, rec.Owner, rec.Token, rec.ClockSeq, w.at(rec.From), w.at(rec.Bound()))
	}
	if err != nil {
		what += fmt.Sprintf(" (%v)", err)
	}
	return fmt.Sprintf("%s: %s %s%s", p.name, q.do, q.key, what)
}
