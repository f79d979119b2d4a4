package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// query is a request to the store.
type query struct {
	p        *process
	do, key  string
	old      string
	value    []byte
	made     int
	entries  []Entry
	err      error
	answered chan struct{}
}

func (r *query) String() string {
	var b strings.Builder
	b.WriteString(r.do + " " + r.key + " ")
	version(&b, r.key, r.old)
	b.Write(r.value)
	return b.String()
}

func (r *query) writes() bool { return r.do == "put" || r.do == "delete" }

// access is the store as a process sees it.
type access struct{ p *process }

func (a access) Get(ctx context.Context, key string) (Entry, error) {
	found, err := a.ask(&query{do: "get", key: key})
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

func (a access) List(ctx context.Context, prefix string) ([]Entry, error) {
	return a.ask(&query{do: "list", key: prefix})
}

func (a access) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	found, err := a.ask(&query{do: "put", key: key, old: old, value: slices.Clone(value)})
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

func (a access) Delete(ctx context.Context, key, old string) error {
	_, err := a.ask(&query{do: "delete", key: key, old: old})
	return err
}

func (a access) Now(context.Context) (time.Time, error) {
	if a.p.w.clockless {
		return time.Time{}, errors.ErrUnsupported
	}
	return time.Now(), nil
}

func (a access) ask(r *query) ([]Entry, error) {
	w := a.p.w
	r.p, r.answered = a.p, make(chan struct{})
	w.mu.Lock()
	if w.over || a.p.dead {
		w.mu.Unlock()
		runtime.Goexit()
	}
	if w.calm(r.key) {
		defer w.mu.Unlock()
		w.make(r)
		return r.entries, r.err
	}
	a.p.put = a.p.put || r.writes()
	a.p.listed = a.p.listed || r.do == "list"
	a.p.parked = append(a.p.parked, r)
	slices.SortFunc(a.p.parked, func(x, y *query) int { return strings.Compare(x.String(), y.String()) })
	w.mu.Unlock()
	<-r.answered
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || a.p.dead {
		runtime.Goexit()
	}
	a.p.note(r.answer())
	return r.entries, r.err
}

// calm reports whether no process of the scope changes the entry in a way that others notice.
func (w *world) calm(key string) bool {
	switch {
	case w.unordered:
		return false
	case strings.HasPrefix(key, ownerPrefix):
		return true
	case key == doorKey:
		return w.losses == 0 && w.readers == 0
	case strings.HasPrefix(key, markPrefix):
		return w.losses == 0
	case key == watermarkKey:
		return w.readers == 0
	}
	return false
}

// make lets the store do what r asks for.
func (w *world) make(r *query) {
	r.made = w.now + 1
	is := w.entries[r.key]
	switch r.do {
	case "get":
		r.entries = []Entry{is}
	case "list":
		for _, key := range slices.Sorted(maps.Keys(w.entries)) {
			if strings.HasPrefix(key, r.key) {
				r.entries = append(r.entries, w.entries[key])
			}
		}
	default:
		if is.Version != r.old {
			r.err = fmt.Errorf("%w: %s", ErrConflict, r.key)
			return
		}
		delete(w.entries, r.key)
		if r.do == "put" {
			w.saves(r, is)
			w.puts[r.key]++
			if strings.HasPrefix(r.key, recordPrefix) {
				if w.now-r.p.heardOf > w.span() && r.p.lease != nil {
					r.p.late = w.now
				}
				r.p.heardOf = w.now
			}
			e := Entry{Key: r.key, Version: fmt.Sprint(w.puts[r.key]), Value: r.value}
			if !w.clockless {
				e.Time = time.Now()
			}
			w.entries[r.key] = e
			r.entries = []Entry{e}
		}
	}
}

// stale reports whether a request will never change anything any more.
func (w *world) stale(r *query) bool {
	is := w.entries[r.key].Version
	return is != r.old && (r.old != "" || w.losses == 0)
}

// told says what the store has done.
func (w *world) told(r *query) string {
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
