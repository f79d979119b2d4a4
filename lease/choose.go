package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// candidate is a worker ID that may be taken.
type candidate struct {
	record Record
	seq    int       // the clock sequence to go on with,
	from   time.Time // and the time from which it may be stamped
	mine   bool      // the owner had it before
}

// choose picks the worker ID to take, except the passed ones. If it returns an error, wait
// is the time until a worker ID may come free, or 0 if that will not happen. After each
// conflict it picks among sixteen times as many worker IDs, so that many processes that
// start at once soon try different ones.
func choose(o *Options, snap Snapshot, passed map[int]error, conflicts int) (c candidate, wait time.Duration, err error) {
	now := o.now()
	width := 1 << min(4*conflicts, 24) // among how many equally good worker IDs to choose
	var records []Record
	var free, behind []candidate
	owns := false // the owner already has a worker ID
	for _, r := range snap.Records {
		if r.Layout != o.Layout {
			return c, 0, &LayoutError{Worker: r.Worker, Has: r.Layout, Want: o.Layout}
		}
		if r.Worker < o.First || r.Worker > o.last() {
			continue
		}
		records = append(records, r)
		mine, reuse := r.Owner == o.Owner, max(o.Reuse, r.Reuse)
		if r.Owner == "" { // it was given back, and no owner ever used it
			reuse = ReuseAny
		}
		owns = owns || mine && r.State != Spent
		if r.Live(snap.Now) {
			if left := r.Renewed.Add(r.Window).Sub(snap.Now) + time.Millisecond; wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if passed[r.Worker] != nil || r.State == Spent || reuse == ReuseOnce || reuse == ReuseKeep && !mine {
			continue
		}
		c := candidate{record: r, mine: mine}
		if c.seq, c.from = r.free(now); c.from.After(now) {
			behind = append(behind, c)
		} else {
			free = append(free, c)
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Worker, b.Worker) })
	if o.Reuse != ReuseKeep || !owns {
		free = append(free, unused(o, snap.Lost, records, passed, width)...)
	}

	if len(free) > 0 {
		slices.SortFunc(free, func(a, b candidate) int {
			return cmp.Or(-compareBool(a.mine, b.mine), cmp.Compare(a.record.Worker, b.record.Worker))
		})
		alike := slices.IndexFunc(free, func(c candidate) bool { return c.mine != free[0].mine })
		if alike < 0 {
			alike = len(free)
		}
		return free[randomN(min(alike, width))], 0, nil
	}
	if len(behind) > 0 {
		c = slices.MinFunc(behind, func(a, b candidate) int {
			return cmp.Or(-compareBool(a.mine, b.mine), a.from.Compare(b.from))
		})
		if c.from.Sub(now) > o.Window {
			c = slices.MinFunc(behind, func(a, b candidate) int { return a.from.Compare(b.from) })
		}
		if over := c.from.Sub(now) - o.Window; over > 0 {
			if over < o.Window/2 { // two hosts' clocks or windows may differ a little
				wait = max(over, time.Millisecond)
			}
			return c, wait, &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: c.from, Now: now}}
		}
		return c, 0, nil
	}
	for _, err := range passed { // any of the errors
		return c, wait, err
	}
	e := &ExhaustedError{First: o.First, Last: o.last(), Records: records}
	for worker, err := range snap.Lost {
		if err == errUnread || worker < o.First || worker > o.last() {
			continue
		}
		if len(records) == 0 {
			return c, 0, err
		}
		if e.Lost == nil {
			e.Lost = map[int]error{}
		}
		e.Lost[worker] = err
	}
	if owns && o.Reuse == ReuseKeep {
		e.Owner = o.Owner
		e.Records = slices.DeleteFunc(records, func(r Record) bool { return r.Owner != o.Owner })
	}
	return c, wait, e
}

// unused returns up to n worker IDs that have no record and are not lost or passed, the
// smallest first.
func unused(o *Options, lost map[int]error, records []Record, passed map[int]error, n int) []candidate {
	var found []candidate
	add := func(from, to int) {
		for w := from; w <= to && len(found) < n; w++ {
			if passed[w] == nil && lost[w] == nil {
				found = append(found, candidate{record: Record{Worker: w, Layout: o.Layout}})
			}
		}
	}
	next := o.First
	for _, r := range records {
		add(next, r.Worker-1)
		next = r.Worker + 1
	}
	add(next, o.last())
	return found
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// locks are the worker IDs whose records other processes had locked, and since when.
type locks map[int]time.Time

// found returns err, which says that a record is locked. If the record has been locked for
// longer than patience, the process with the lock is stuck; then the error is no conflict
// any more.
func (l locks) found(worker int, err error, patience time.Duration) error {
	since, ok := l[worker]
	if !ok {
		l[worker] = time.Now()
		return err
	}
	e := new(FileError)
	if passed := time.Since(since); passed > patience && errors.As(err, &e) {
		return &FileError{Path: e.Path, Err: fmt.Errorf("%w for %v", errLocked, passed.Round(time.Millisecond))}
	}
	return err
}
