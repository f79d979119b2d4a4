package lease

import (
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// candidate is a worker ID that may be taken.
type candidate struct {
	record protocol.Record
	seq    int       // the clock sequence to take,
	from   time.Time // and the time from which it may be stamped
	mine   bool      // the owner had it before
}

// choose picks the worker ID to take now. records are in the order of their worker IDs, and idle
// returns how long one of them is known to be unchanged. skipped has the worker IDs that are left
// out, with the reasons. former is the worker ID that the owner had last; it may have been given
// back unused. If choose returns an error, wait is the time until a worker ID may come free, or 0
// if that will not happen.
func choose(
	o *Options,
	now time.Time,
	records []protocol.Record,
	former int,
	idle func(protocol.Record) time.Duration,
	skipped map[int]error,
) (c candidate, wait time.Duration, err error) {
	var free, behind []candidate
	has := slices.ContainsFunc(records, func(r protocol.Record) bool { return owns(o, r) })
	// If an owner that keeps its worker ID has chosen one that has no record yet, another process
	// of the owner may be saving the record.
	starts := o.Reuse == ReuseKeep && !has && skipped[former] == nil &&
		slices.ContainsFunc(records, func(r protocol.Record) bool { return r.Worker == former && r.Saves == 0 })
	for _, r := range records {
		if r.State == StateHeld {
			if idle := idle(r); r.Live(idle) {
				if left := r.WindowLength - idle + time.Millisecond; wait == 0 || left < wait {
					wait = left
				}
				continue
			}
		}
		if starts && r.Worker != former {
			continue
		}
		mine := r.Saves > 0 && (r.Owner == o.Owner || r.Owner == "" && r.Worker == former)
		if skipped[r.Worker] != nil || !allowed(o, r, mine, has) {
			continue
		}
		c := candidate{record: r, mine: mine}
		if c.seq, c.from = r.Start(now); c.from.After(now) {
			behind = append(behind, c)
		} else {
			free = append(free, c)
		}
	}
	if len(free) > 0 {
		if i := slices.IndexFunc(free, func(c candidate) bool { return c.mine }); i >= 0 {
			return free[i], 0, nil
		}
		return free[machine.RandomN(len(free))], 0, nil
	}
	if len(behind) > 0 {
		c = slices.MinFunc(behind, func(a, b candidate) int { return a.from.Compare(b.from) })
		if over := c.from.Sub(now) - o.Window; over > 0 {
			if over < o.Window/2 { // two hosts' clocks or windows may differ a little
				wait = max(over, time.Millisecond)
			}
			return c, wait, &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: c.from, Now: now}}
		}
		return c, 0, nil
	}
	for _, err := range skipped { // any of the errors
		return c, wait, err
	}
	e := &ExhaustedError{First: o.First, Last: o.last()}
	for _, r := range records {
		if r.Saves > 0 && (!has || o.Reuse != ReuseKeep || r.Owner == o.Owner) {
			e.Holders = append(e.Holders, holderOf(r))
		}
	}
	if has && o.Reuse == ReuseKeep {
		e.Owner = o.Owner
	}
	return c, wait, e
}

// owns reports whether r is kept for the owner.
func owns(o *Options, r protocol.Record) bool {
	return r.Saves > 0 && r.Owner == o.Owner && r.State != StateSpent && r.State != StateLost
}

// allowed reports whether the owner may take the worker ID of r, which is not held. has says
// that the owner has a worker ID already.
func allowed(o *Options, r protocol.Record, mine, has bool) bool {
	reuse := max(o.Reuse, r.Reuse)
	switch {
	case r.State == StateSpent, r.State == StateLost && o.Reuse == ReuseOnce:
		return false
	case r.Saves == 0, r.State == StateLost, r.Owner == "":
		// Nobody has it. If it has no owner, it was given back unused.
		return o.Reuse != ReuseKeep || !has
	}
	return reuse == ReuseAny || reuse == ReuseKeep && mine
}
