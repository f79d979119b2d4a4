// Package history answers who held the worker ID of an ID, and when: from the record of one worker
// ID, or from those of all.
package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// The reasons for naming no issuer: see lease.ErrNeverIssued, lease.ErrForgotten and
// lease.ErrNotReported.
var (
	ErrNeverIssued = errors.New("lease: nobody can have issued the ID")
	ErrForgotten   = errors.New("lease: the ID's issuer is not in the history")
	ErrNotReported = errors.New("lease: the ID's issuer has not reported to the store yet")
)

// Index is lease.History.
type Index struct {
	layout snowflake.Layout
	begins time.Time
	near   []*timelines       // by worker ID, if it is among the first; nil if it has no record
	far    map[int]*timelines // by worker ID
	none   timelines          // of the worker IDs without a record
}

// nearest is the number of worker IDs that need no map: a map would take half of the time of Whois.
const nearest = 1 << 16

// timelines has the history of a worker ID.
type timelines struct {
	lines       []timeline // by clock sequence, up to the last one that was used
	whole       int64      // the first tick from which on no holding is missing
	notReported int64      // of the other clock sequences: see timeline
}

// timeline has the holdings of a worker ID and clock sequence, in order. Holding i covers the ticks
// in [from[i], to[i]). No two holdings share a tick.
type timeline struct {
	from, to []int64 // apart from by, so that a search reads little memory
	by       []*protocol.Holding

	// notReported is the first tick that a holder which continues while the store is away may have
	// stamped since its last report.
	notReported int64
}

// endOfTime is after every tick.
const endOfTime = math.MaxInt64

// newIndex returns the index of a store without records. d is the store's door.
func newIndex(d protocol.Door) *Index {
	h := &Index{layout: d.Layout, far: map[int]*timelines{}}
	h.near = make([]*timelines, min(nearest, 1<<d.Layout.WorkerBits))
	h.none = timelines{whole: h.wholeFrom(d, protocol.Record{}), notReported: endOfTime}
	return h
}

func (h *Index) put(worker int, p *timelines) {
	if worker < len(h.near) {
		h.near[worker] = p
	} else {
		h.far[worker] = p
	}
}

func (h *Index) of(worker int) *timelines {
	var p *timelines
	if worker < len(h.near) {
		p = h.near[worker]
	} else {
		p = h.far[worker]
	}
	if p == nil {
		return &h.none
	}
	return p
}

func (h *Index) wholeFrom(d protocol.Door, r protocol.Record) int64 {
	if from, ok := d.Complete(r); ok {
		return h.tick(from)
	}
	return endOfTime
}

// add adds the history of the worker ID of r. earlier are the holdings that its record does not
// have; whole says that they are all there. d is the store's door.
func (h *Index) add(d protocol.Door, r protocol.Record, earlier []protocol.Holding, whole bool) {
	p := &timelines{whole: endOfTime, notReported: endOfTime}
	h.put(r.Worker, p)
	if whole {
		p.whole = h.wholeFrom(d, r)
	}
	if r.Version == "" {
		return
	}
	if r.Offline {
		p.notReported = h.tick(r.NotBefore)
	}
	bySeq := map[int][]*protocol.Holding{}
	for _, all := range [][]protocol.Holding{{r.Holding()}, r.Ended, earlier} {
		for i := range all {
			by := &all[i]
			if !by.From.Before(by.To) {
				continue
			}
			if by.ClockSeq < 0 || by.ClockSeq >= 1<<h.layout.ClockSeqBits { // the entry was damaged
				p.whole = endOfTime
				continue
			}
			bySeq[by.ClockSeq] = append(bySeq[by.ClockSeq], by)
			if h.begins.IsZero() || by.From.Before(h.begins) {
				h.begins = by.From
			}
		}
	}
	last := len(r.Bounds) - 1
	for seq := range bySeq {
		last = max(last, seq)
	}
	p.lines = make([]timeline, last+1)
	for seq := range p.lines {
		p.lines[seq] = h.timeline(bySeq[seq])
		if r.Offline {
			p.lines[seq].notReported = h.tick(r.BoundOf(seq))
		}
	}
}

// timeline returns the ticks of each holding. If a change to another clock sequence was given up,
// because its answer was lost, the history may give a holding too late an end. Later holders began
// at its real end. So a tick of several holdings belongs to the one that began last.
func (h *Index) timeline(holdings []*protocol.Holding) timeline {
	slices.Reverse(holdings) // of those with one beginning, the first comes last
	slices.SortStableFunc(holdings, func(a, b *protocol.Holding) int { return a.From.Compare(b.From) })
	l := timeline{notReported: endOfTime}
	var open []*protocol.Holding // those that began last are at the end
	var at int64
	upTo := func(end int64) {
		for len(open) > 0 && at < end {
			by := open[len(open)-1]
			to := h.tick(by.To)
			if next := min(to, end); at < next {
				l.from, l.to, l.by = append(l.from, at), append(l.to, next), append(l.by, by)
				at = next
			}
			if to <= at {
				open = open[:len(open)-1]
			}
		}
		at = end
	}
	for _, by := range holdings {
		upTo(h.tick(by.From))
		open = append(open, by)
	}
	upTo(endOfTime)
	return l
}

// tick returns the first tick that begins at t or later.
func (h *Index) tick(t time.Time) int64 {
	id, _, err := h.layout.Range(t, t)
	if errors.Is(err, snowflake.ErrBeforeEpoch) {
		return 0
	}
	if err != nil {
		return endOfTime
	}
	tick, _, _ := h.fields(id)
	return tick
}

// fields returns what Decode does, without a time, which would take the most time.
func (h *Index) fields(id snowflake.ID) (tick int64, seq, worker int) {
	l := &h.layout
	v, shift := int64(id), l.SequenceBits
	if l.WorkerLast {
		shift = 0
	}
	worker = int(v >> shift & (1<<l.WorkerBits - 1))
	v >>= l.SequenceBits + l.WorkerBits + l.DatacenterBits
	return v >> l.ClockSeqBits, int(v & (1<<l.ClockSeqBits - 1)), worker
}

// Layout returns the layout of the store's IDs.
func (h *Index) Layout() snowflake.Layout { return h.layout }

// Begins is lease.History.Begins.
func (h *Index) Begins() time.Time { return h.begins }

// errForeign is the error for IDs of another layout.
var errForeign = fmt.Errorf("%w: %w", ErrNeverIssued, snowflake.ErrInvalidID)

// errZero is the error of a zero Index.
var errZero = fmt.Errorf("%w: this History was not made by ReadHistory", snowflake.ErrInvalidOptions)

// Whois is lease.History.Whois.
func (h *Index) Whois(id snowflake.ID) (*protocol.Holding, error) {
	if h.near == nil {
		return nil, errZero
	}
	tick, seq, worker := h.fields(id)
	if id < 0 || tick>>h.layout.TimeBits != 0 {
		return nil, errForeign
	}
	p := h.of(worker)
	notReported := p.notReported
	if seq < len(p.lines) {
		line := &p.lines[seq]
		if i := line.after(tick) - 1; i >= 0 && tick < line.to[i] {
			return line.by[i], nil
		}
		notReported = line.notReported
	}
	switch {
	case tick < p.whole:
		return nil, ErrForgotten
	case tick >= notReported:
		return nil, ErrNotReported
	}
	return nil, ErrNeverIssued
}

// Around is lease.History.Around.
func (h *Index) Around(id snowflake.ID) (before, after *protocol.Holding) {
	tick, seq, worker := h.fields(id)
	p := h.of(worker)
	if seq >= len(p.lines) {
		return nil, nil
	}
	line := &p.lines[seq]
	i := line.after(tick)
	if i < len(line.by) {
		after = line.by[i]
	}
	if i--; i >= 0 && tick < line.to[i] { // it is within a holding
		i--
	}
	if i >= 0 {
		before = line.by[i]
	}
	return before, after
}

// after returns the index of the first holding that begins after tick.
func (l *timeline) after(tick int64) int {
	low, high := 0, len(l.from)
	for low < high {
		if middle := int(uint(low+high) >> 1); l.from[middle] <= tick {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
