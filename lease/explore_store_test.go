//go:build go1.25

package lease

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// asked is a query on its way to the store and back.
type asked struct {
	query
	p        *process
	made     int
	err      error
	answered chan struct{}
}

func (q *query) String() string {
	var b strings.Builder
	b.WriteString(q.do + " " + q.key + " ")
	version(&b, q.key, q.old)
	b.Write(q.value)
	return b.String()
}

// inOrder puts queries into an order.
func inOrder(all []*asked) {
	slices.SortFunc(all, func(x, y *asked) int { return strings.Compare(x.String(), y.String()) })
}

// ask is the process's way to the store.
func (p *process) ask(ctx context.Context, q *query) error {
	w := p.w
	if q.do == "now" {
		return w.store.serve(ctx, q)
	}
	r := &asked{query: *q, p: p, answered: make(chan struct{})}
	w.mu.Lock()
	if w.over || p.dead {
		w.mu.Unlock()
		runtime.Goexit()
	}
	if w.calm(r.key) {
		defer w.mu.Unlock()
		if w.make(r); r.key == silenceKey {
			p.sees(r)
		}
		q.entries = r.entries
		return r.err
	}
	p.put = p.put || r.writes()
	p.listed = p.listed || r.do == "list"
	p.parked = append(p.parked, r)
	inOrder(p.parked)
	w.mu.Unlock()
	<-r.answered
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || p.dead {
		runtime.Goexit()
	}
	p.note(r.answer())
	p.sees(r)
	q.entries = r.entries
	return r.err
}

// calm reports whether no process of the scope changes the entry in a way that others notice.
func (w *world) calm(key string) bool {
	switch {
	case w.unordered:
		return false
	case strings.HasPrefix(key, ownerPrefix):
		return true
	case key == doorKey:
		return w.losses+w.garbles+w.readers == 0
	case strings.HasPrefix(key, markPrefix):
		return w.losses == 0
	case key == watermarkKey:
		return w.garbles+w.readers == 0
	case key == silenceKey: // a scope has it
		return !w.silence
	}
	return false
}

// make lets the store do what r asks for.
func (w *world) make(r *asked) {
	r.made = w.now + 1
	was := w.store.entries[r.key]
	if r.err = w.store.serve(context.Background(), &r.query); r.err != nil || r.do != "put" {
		return
	}
	w.saved(r, was)
	if r.saves() {
		if w.now-r.p.heardOf > w.span() && r.p.lease != nil {
			r.p.late = w.now
		}
		r.p.heardOf = w.now
	}
}

// stale reports whether a request will never change anything any more.
func (w *world) stale(r *asked) bool {
	is := w.store.entries[r.key].Version
	return is != r.old && (r.old != "" || w.losses == 0)
}

// told says what the store has done.
func (w *world) told(r *asked) string {
	if !w.telling {
		return ""
	}
	what := ""
	if worker, ok := workerOf(recordPrefix, r.key); ok && r.writes() {
		rec, _ := decodeRecord(worker, Entry{Version: "x", Value: r.value})
		what = fmt.Sprintf(": %s by %s (%s), clock sequence %d, from %s to %s", rec.State, rec.Owner, rec.Token, rec.ClockSeq, w.at(rec.From), w.at(rec.Bound()))
	}
	if r.err != nil {
		what += fmt.Sprintf(" (%v)", r.err)
	}
	return fmt.Sprintf("%s: %s %s%s", r.p.name, r.do, r.key, what)
}
