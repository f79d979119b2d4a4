//go:build go1.25

package lease

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/localcopy"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// This file is what a scope with a local copy has besides. The processes have one owner and one
// directory: a holder and, when it has crashed or lost its worker ID, those that follow. Requests
// to the directory are made at once. So between two requests to the store, no other process changes
// the directory; a process that crashes is gone after all that it saved there.

// The forms in the directory and in the versions of its records: see localcopy.Store.
const (
	wanted      = "wanted\n"
	fromHere    = "here "
	identityKey = "identity"
)

// copyPrefix begins the keys of the local copy's entries.
const copyPrefix = "copy/"

// copied returns the entries of the local copy.
func (w *world) copied() map[string]Entry {
	all := maps.Clone(w.entries)
	maps.DeleteFunc(all, func(key string, _ Entry) bool { return !strings.HasPrefix(key, copyPrefix) })
	return all
}

// copySteps returns what may happen to the store, and to the local copy. An older copy is put back
// only if the store knows all that the copy has, and then does not go away any more, and if no
// earlier holder is up, who would find its version again. Otherwise IDs repeat: see the hazard of
// Options.LocalCopy.
func (w *world) copySteps(mayFault func(kind, int) bool) (all []step) {
	if w.gone {
		all = append(all, step{outage, 0, 1})
	} else if mayFault(outage, w.outages) && w.spent[older] == 0 {
		all = append(all, step{outage, 0, 0})
	}
	if mayFault(remove, w.removes) {
		all = append(all, step{remove, 0, 0}, step{remove, 0, 1})
	}
	first := !w.procs[len(w.procs)-1].begun || !slices.ContainsFunc(w.procs, (*process).up)
	if mayFault(older, w.olders) && !w.gone && first && w.toldAll() {
		all = append(all, step{older, 0, 0})
	}
	return all
}

// toldAll reports whether the store has the records that the local copy has.
func (w *world) toldAll() bool {
	for key, e := range w.copied() {
		if _, ok := book.WorkerOf(book.RecordPrefix, strings.TrimPrefix(key, copyPrefix)); ok && string(w.entries[strings.TrimPrefix(key, copyPrefix)].Value) != string(e.Value) {
			return false
		}
	}
	return true
}

// mayKeep reports whether the owner of the local copy, if there is one, may have the worker ID of a
// record: it is not kept for another owner, such as this one before the directory was removed, and
// its copy is there.
func (w *world) mayKeep(r protocol.Record) bool {
	identity, here := w.entries[copyPrefix+identityKey], w.entries[copyPrefix+book.RecordKey(r.Worker)]
	return !w.copies || r.Version == "" || r.Owner == "A @"+string(identity.Value) && here.Version != ""
}

// changesCopy makes a step that changes the local copy.
func (w *world) changesCopy(s step) {
	switch {
	case s.kind == older:
		w.loses(func(key string) bool { return strings.HasPrefix(key, copyPrefix) })
		maps.Copy(w.entries, w.backup)
		w.tell("the local copy is put back as it was at first")
	case s.n == 0:
		w.loses(func(key string) bool { return strings.HasPrefix(key, copyPrefix) })
		w.tell("the local copy is removed")
	default:
		w.loses(func(key string) bool { return strings.HasPrefix(key, copyPrefix+book.RecordPrefix) })
		w.tell("the record is removed from the local copy")
	}
}

// copyState writes what a state has besides.
func (w *world) copyState(t *text) {
	if w.copies {
		t.bool(w.gone)
		for _, n := range []int{w.left(outage, w.outages), w.left(remove, w.removes), w.left(older, w.olders), w.spent[older]} {
			t.int(n)
		}
	}
}

// version returns the version of an entry: in the local copy if was is from there.
func (w *world) version(key, was string) string {
	if strings.HasPrefix(was, fromHere) {
		return fromHere + w.entries[copyPrefix+key].Version
	}
	return w.entries[key].Version
}

// localCopy writes what a lease knows of its local copy, and of the store beside it.
func (t *text) localCopy(l *Lease) {
	c, ok := l.store.(*localcopy.Store)
	if !ok {
		return
	}
	is := c.State()
	t.print(l.o.Owner, is.Holds, is.Lost, is.Away != nil)
	if is.Away != nil {
		t.time(is.Asked)
	}
	for _, key := range slices.Sorted(maps.Keys(is.There)) {
		t.print(key)
		t.entry(is.There[key])
	}
}

// opensCopy lets the lease of the replay ask its local copy, as Acquire does.
func (r *replay) opensCopy(ctx context.Context) (err error) {
	if l := r.lease; r.w.copies {
		l.store, err = withLocalCopy(ctx, asks(r.ask), asks(r.local), &l.o)
	}
	return err
}

// copiesCopy lets the lease of the replay have the local copy that the process's had at rest.
func (r *replay) copiesCopy(was *Lease) {
	if c, ok := was.store.(*localcopy.Store); ok {
		r.lease.o.Owner, r.lease.store = was.o.Owner, c.Clone(asks(r.ask), asks(r.local))
	}
}

// local is the way to the local copy.
func (r *replay) local(_ context.Context, q *query) error {
	if a, ok := r.replied(); ok {
		q.entries = a.entries
		return a.err
	}
	if r.over {
		return errOpen
	}
	here := *q
	here.key = copyPrefix + q.key
	was := r.w.entries[here.key]
	a := reply{err: r.w.serve(&here)}
	for _, e := range here.entries {
		e.Key = strings.TrimPrefix(e.Key, copyPrefix)
		a.entries = append(a.entries, e)
	}
	if a.err == nil && q.do == "put" {
		was.Value = bytes.TrimPrefix(was.Value, []byte(wanted)) // as it was before it was taken
		r.w.saves(r.p, q, was)
	}
	r.w.tell("%s (copy)", r.w.told(r.p, q, a.err))
	r.notes(a)
	r.p.told(q, a)
	q.entries = a.entries
	return a.err
}

// told notes an answer that came at once.
func (p *process) told(q *query, a reply) {
	p.events = text{slices.Clip(p.events.text), slices.Clip(p.events.numbers)}
	p.events.query(q)
	p.events.reply(q, a)
}
