package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// History is what a store knew, when it was read, of who held its worker IDs. It answers for many
// IDs what [Whois] answers for one. Any number of goroutines may use it.
type History struct {
	layout snowflake.Layout
	begins time.Time
	near   []*past       // by worker ID, if it is among the first; nil if it has no record
	far    map[int]*past // by worker ID
	none   past          // of the worker IDs without a record
}

// nearest is how many worker IDs need no map: a map would take half of the time of Whois.
const nearest = 1 << 16

// past is what is known of a worker ID.
type past struct {
	lines []timeline // by clock sequence, up to the last one that was used
	whole int64      // the first tick from which on no holding is missing
	floor int64      // notReported of the other clock sequences
}

// timeline has the holdings of a worker ID and clock sequence, in their order. Holding i is of the
// ticks from from[i] on, and before to[i]. No tick is of two holdings.
type timeline struct {
	from, to []int64 // apart from by, so that a search reads little memory
	by       []*Holding

	// notReported is the first tick that a holder with a LocalCopy may have stamped since its last
	// report.
	notReported int64
}

// never is after every tick.
const never = math.MaxInt64

// ReadHistory reads the records and the history in s, once. What it returns is right for all IDs
// that were issued before it was called. So first read the IDs, and then the history: the holder of
// a later ID may have saved its window since, and the ID then looks as if nobody had issued it.
//
// If some entries cannot be read, ReadHistory returns a History that answers ErrForgotten where
// they may be missing, and an error that joins the reasons, each of which matches [ErrBadRecord].
// If the store has no entries, the error matches [ErrWiped]. Other errors are the store's.
func ReadHistory(ctx context.Context, s Store) (*History, error) {
	from := book.LineTo(ctx, s)
	records, bad, err := book.AllRecords(from)
	if err != nil {
		return nil, err
	}
	kept, err := allChunks(from, records)
	if err != nil {
		return nil, err
	}
	d, err := book.GetDoor(from) // last: if entries were lost before they were listed, it says so
	if err != nil {
		return nil, err
	}
	if d.Version == "" {
		return nil, fmt.Errorf("%w: the store has no entries", ErrWiped)
	}
	h := newHistory(d)
	for worker := range bad {
		h.put(worker, &past{whole: never, floor: never})
	}
	for _, r := range protocol.Sorted(maps.Values(records)) {
		holdings, whole, err := kept.of(from, &r)
		if err == nil && r.Version != "" && r.Layout != d.Layout {
			err = fmt.Errorf("%w: worker %d has the layout %v, and the store %v", ErrBadRecord, r.Worker, r.Layout, d.Layout)
		}
		if err != nil && !errors.Is(err, ErrBadRecord) {
			return nil, err
		}
		if err != nil {
			bad[r.Worker], whole = err, false
		}
		h.add(d, r, holdings, whole)
	}
	return h, errors.Join(slices.Collect(maps.Values(bad))...)
}

func newHistory(d protocol.Door) *History {
	h := &History{layout: d.Layout, far: map[int]*past{}}
	h.near = make([]*past, min(nearest, 1<<d.Layout.WorkerBits))
	h.none = past{whole: h.wholeFrom(d, protocol.Record{}), floor: never}
	return h
}

func (h *History) put(worker int, p *past) {
	if worker < len(h.near) {
		h.near[worker] = p
	} else {
		h.far[worker] = p
	}
}

func (h *History) of(worker int) *past {
	var p *past
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

// chunkEntries are the entries of the history, by worker ID and chunk.
type chunkEntries map[int]map[int]Entry

// allChunks lists the history once, if a record has a part of it there.
func allChunks(s book.Line, records map[int]protocol.Record) (chunkEntries, error) {
	found := chunkEntries{}
	for _, r := range records {
		if r.Chunks.First < r.Chunks.Next {
			found[r.Worker] = map[int]Entry{}
		}
	}
	if len(found) == 0 {
		return found, nil
	}
	entries, err := s.List(book.HistoryPrefix)
	for _, e := range entries {
		key := strings.TrimPrefix(e.Key, book.HistoryPrefix)
		first, _, _ := strings.Cut(key, "/")
		if worker, ok := book.WorkerOf("", first); ok && found[worker] != nil {
			if chunk, ok := book.WorkerOf(book.ChunksPrefix(worker), e.Key); ok {
				found[worker][chunk] = e
			}
		}
	}
	return found, err
}

// of returns the holdings of r that are not in its record, and whether they are all there. If a
// chunk is missing because r was replaced meanwhile, r becomes its successor.
func (c chunkEntries) of(s book.Line, r *protocol.Record) (holdings []protocol.Holding, whole bool, err error) {
	for chunk := r.Chunks.First; chunk < r.Chunks.Next; chunk++ {
		e, ok := c[r.Worker][chunk]
		if !ok {
			return wholeHistory(s, r)
		}
		kept, err := book.DecodeChunk(e)
		if err != nil {
			return holdings, false, err
		}
		holdings = append(holdings, kept...)
	}
	return holdings, true, nil
}

func (h *History) wholeFrom(d protocol.Door, r protocol.Record) int64 {
	if from, ok := d.Complete(r); ok {
		return h.tick(from)
	}
	return never
}

// add adds what is known of a worker ID.
func (h *History) add(d protocol.Door, r protocol.Record, earlier []protocol.Holding, whole bool) {
	p := &past{whole: never, floor: never}
	h.put(r.Worker, p)
	if whole {
		p.whole = h.wholeFrom(d, r)
	}
	if r.Version == "" {
		return
	}
	if r.Offline {
		p.floor = h.tick(r.Floor)
	}
	bySeq := map[int][]*Holding{}
	for _, all := range [][]protocol.Holding{{r.Holding()}, r.Ended, earlier} {
		for i := range all {
			by := (*Holding)(&all[i])
			if !by.From.Before(by.To) {
				continue
			}
			if by.ClockSeq < 0 || by.ClockSeq >= 1<<h.layout.ClockSeqBits { // the entry was damaged
				p.whole = never
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
// because its answer was lost, the history may have a holding with a later end than it had. Later
// holders began at its real end. So if several holdings have a tick, it is of the one that began
// last.
func (h *History) timeline(holdings []*Holding) timeline {
	slices.Reverse(holdings) // of those with one beginning, the first comes last
	slices.SortStableFunc(holdings, func(a, b *Holding) int { return a.From.Compare(b.From) })
	l := timeline{notReported: never}
	var open []*Holding // those that began last are at the end
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
	upTo(never)
	return l
}

// tick returns the first tick that begins at t or later.
func (h *History) tick(t time.Time) int64 {
	id, _, err := h.layout.Range(t, t)
	if errors.Is(err, snowflake.ErrBeforeEpoch) {
		return 0
	}
	if err != nil {
		return never
	}
	tick, _, _ := h.fields(id)
	return tick
}

// fields returns what Decode does, without a time, which would take the most time.
func (h *History) fields(id snowflake.ID) (tick int64, seq, worker int) {
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
func (h *History) Layout() snowflake.Layout { return h.layout }

// Begins returns the beginning of the first holding that the store knows, of any worker ID. If it
// knows none, Begins returns the zero time.
func (h *History) Begins() time.Time { return h.begins }

// errForeign is the error for IDs of another layout.
var errForeign = fmt.Errorf("%w: %w", ErrNeverIssued, snowflake.ErrInvalidID)

// Whois returns who issued id, as the function [Whois] does, with its errors and without their
// texts: [ErrNeverIssued], which also matches snowflake.ErrInvalidID if id is not of the layout;
// [ErrForgotten]; or [ErrNotReported]. It does not look at the datacenter. It allocates nothing.
// The Holding is nil if there is an error, and must not be changed.
func (h *History) Whois(id snowflake.ID) (*Holding, error) {
	tick, seq, worker := h.fields(id)
	if id < 0 || tick>>h.layout.TimeBits != 0 {
		return nil, errForeign
	}
	p := h.of(worker)
	notReported := p.floor
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

// Around returns the last holding of id's worker ID and clock sequence that ended before id, and
// the first that began after it; nil if there is none.
func (h *History) Around(id snowflake.ID) (before, after *Holding) {
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
