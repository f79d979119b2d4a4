package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Read is lease.ReadHistory.
func Read(s book.Line) (*Index, error) {
	records, bad, err := book.AllRecords(s)
	if err != nil {
		return nil, err
	}
	kept, err := allChunks(s, records)
	if err != nil {
		return nil, err
	}
	d, err := book.GetDoor(s) // last: if entries were lost before they were listed, it says so
	if err != nil {
		return nil, err
	}
	if d.Version == "" {
		return nil, fmt.Errorf("%w: the store has no entries", book.ErrWiped)
	}
	h := newIndex(d)
	for worker := range bad {
		h.put(worker, &timelines{whole: endOfTime, notReported: endOfTime})
	}
	for _, r := range protocol.Sorted(maps.Values(records)) {
		holdings, whole, err := kept.of(s, &r)
		if err == nil && r.Version != "" && r.Layout != d.Layout {
			err = fmt.Errorf("%w: worker %d has the layout %v, and the store %v", driver.ErrBadRecord, r.Worker, r.Layout, d.Layout)
		}
		if err != nil && !errors.Is(err, driver.ErrBadRecord) {
			return nil, err
		}
		if err != nil {
			bad[r.Worker], whole = err, false
		}
		h.add(d, r, holdings, whole)
	}
	return h, errors.Join(slices.Collect(maps.Values(bad))...)
}

// Whois is lease.Whois.
func Whois(s book.Line, id snowflake.ID) (protocol.Holding, error) {
	d, err := book.GetDoor(s)
	if err != nil {
		return protocol.Holding{}, err
	}
	if d.Version == "" {
		return protocol.Holding{}, fmt.Errorf("%w: %d: %w", ErrForgotten, id, book.ErrWiped)
	}
	if err := d.Layout.Check(id); err != nil {
		return protocol.Holding{}, fmt.Errorf("%w: %w", ErrNeverIssued, err)
	}
	r, err := book.GetRecord(s, d.Layout.Decode(id).Worker)
	if err != nil {
		return protocol.Holding{}, err
	}
	earlier, whole, unread := wholeHistory(s, &r)
	h := newIndex(d)
	h.add(d, r, earlier, whole)
	by, err := h.Whois(id)
	if err == nil {
		return *by, nil
	}
	if unread != nil {
		return protocol.Holding{}, unread
	}
	if errors.Is(err, ErrNeverIssued) {
		if is, bad := book.GetDoor(s); bad != nil || is.Version != d.Version {
			return Whois(s, id) // entries were lost in between
		}
	}
	err = fmt.Errorf("%w: %d: %s", err, id, why(d, err, r, d.Layout.Decode(id)))
	if errors.Is(err, ErrNotReported) {
		return r.Holding(), err
	}
	return protocol.Holding{}, err
}

// why returns the reason why the history of r names no issuer of an ID.
func why(d protocol.Door, err error, r protocol.Record, id snowflake.Parts) string {
	begins, known := d.Complete(r)
	switch {
	case errors.Is(err, ErrNotReported):
		return fmt.Sprintf("only %s can have issued it, at %s, and has reported nothing from %s on",
			r.Owner, times.Text(id.Time), times.Text(r.BoundOf(id.ClockSeq)))
	case errors.Is(err, ErrNeverIssued) && r.Version == "":
		return fmt.Sprintf("worker %d was never leased; it may be reserved, such as for a column's default (docs/sql.md)", r.Worker)
	case errors.Is(err, ErrNeverIssued):
		return fmt.Sprintf("nobody had worker %d and clock sequence %d at %s", r.Worker, id.ClockSeq, times.Text(id.Time))
	case r.State == protocol.StateLost:
		return fmt.Sprintf("the record of worker %d was lost", r.Worker)
	case !known:
		return fmt.Sprintf("the store has lost entries, and the records of worker %d may be among them", r.Worker)
	}
	return fmt.Sprintf("its time is %s, and the history of worker %d begins at %s", times.Text(id.Time), r.Worker, times.Text(begins))
}

// wholeHistory returns the holdings of r that are not in its record, and whether they are all
// there. If r was replaced in between, so that chunks were dropped, r becomes its successor.
func wholeHistory(s book.Line, r *protocol.Record) (holdings []protocol.Holding, whole bool, err error) {
	for r.Chunks.First < r.Chunks.Next {
		holdings, whole, err = history(s, *r)
		if whole || err != nil {
			return holdings, whole, err
		}
		is, err := book.GetRecord(s, r.Worker)
		if err != nil || is.Version == "" || is.Chunks == r.Chunks { // lost: the chunks read count
			return holdings, false, err
		}
		*r = is
	}
	return nil, true, nil
}

// history returns the holdings of r's chunks, and whether all chunks are there.
func history(s book.Line, r protocol.Record) (holdings []protocol.Holding, whole bool, err error) {
	entries, err := s.List(book.ChunksPrefix(r.Worker))
	if err != nil {
		return nil, false, err
	}
	found := 0
	for _, e := range entries {
		chunk, ok := book.WorkerOf(book.ChunksPrefix(r.Worker), e.Key)
		if !ok || chunk < r.Chunks.First || chunk >= r.Chunks.Next {
			continue
		}
		found++
		kept, err := book.DecodeChunk(e)
		if err != nil {
			return nil, false, err
		}
		holdings = append(holdings, kept...)
	}
	return holdings, found == r.Chunks.Next-r.Chunks.First, nil
}

// chunkEntries are the entries of the history, by worker ID and chunk.
type chunkEntries map[int]map[int]driver.Entry

// allChunks lists the history once, if a record has a part of it there.
func allChunks(s book.Line, records map[int]protocol.Record) (chunkEntries, error) {
	found := chunkEntries{}
	for _, r := range records {
		if r.Chunks.First < r.Chunks.Next {
			found[r.Worker] = map[int]driver.Entry{}
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
// chunk is missing because r was replaced in between, r becomes its successor.
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
