// Package book reads and saves, over a line to a store, what the leases keep there: records and
// their marks, the store's door, the history, the watermark, how long an entry has not changed.
// What follows from it is told in package protocol.
package book

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// The keys of a store. A mark says that its worker ID has had a record. It is made after the
// record and before anything is stamped.
const (
	DoorKey       = "store" // of the door
	RecordPrefix  = "worker/"
	MarkPrefix    = "mark/"
	OwnerPrefix   = "owner/"
	HistoryPrefix = "history/"
)

func RecordKey(worker int) string { return RecordPrefix + strconv.Itoa(worker) }
func MarkKey(worker int) string   { return MarkPrefix + strconv.Itoa(worker) }

// OwnerKey is the key under which an owner's last worker ID is kept.
func OwnerKey(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return OwnerPrefix + hex.EncodeToString(sum[:16])
}

// DecodeOwner returns the worker ID in the entry of an owner and, if one is noted there, the
// process that has found a namesake. ok is false if there is no entry, or if it cannot be read.
func DecodeOwner(e driver.Entry) (worker int, by string, ok bool) {
	digits, by, _ := strings.Cut(string(e.Value), " ")
	worker, err := strconv.Atoi(digits)
	return worker, by, e.Version != "" && err == nil
}

func ChunksPrefix(worker int) string { return HistoryPrefix + strconv.Itoa(worker) + "/" }

func ChunkKey(worker, chunk int) string { return ChunksPrefix(worker) + strconv.Itoa(chunk) }

// WorkerOf returns the worker ID in a key with this prefix.
func WorkerOf(prefix, key string) (worker int, ok bool) {
	digits, ok := strings.CutPrefix(key, prefix)
	worker, err := strconv.Atoi(digits)
	return worker, ok && err == nil && strconv.Itoa(worker) == digits
}

// GetRecord returns the record of a worker ID. If there is no entry, its Saves is 0.
func GetRecord(s Line, worker int) (protocol.Record, error) {
	e, err := s.Get(RecordKey(worker))
	if err != nil {
		return protocol.Record{Worker: worker}, err
	}
	return protocol.DecodeRecord(worker, e)
}

// GetMarked is GetRecord. If the worker ID has a mark and no record, the State is Lost.
func GetMarked(s Line, worker int) (protocol.Record, error) {
	r, err := GetRecord(s, worker)
	if err != nil || r.Version != "" {
		return r, err
	}
	mark, err := s.Get(MarkKey(worker))
	if is := mark.Version != "" || errors.Is(err, driver.ErrBadRecord); !is {
		return r, err
	}
	// The record was there before the mark, so it is lost only if it is not there now.
	r, err = GetRecord(s, worker)
	if err == nil && r.Version == "" {
		r.State = protocol.StateLost
	}
	return r, err
}

// AllRecords returns the records of all worker IDs that were ever used, as GetMarked does, and why
// the others cannot be read.
func AllRecords(s Line) (records map[int]protocol.Record, bad map[int]error, err error) {
	marks, err := listed(s, MarkPrefix) // first, because the record was there before the mark
	if err != nil {
		return nil, nil, err
	}
	found, err := listed(s, RecordPrefix)
	records, bad = map[int]protocol.Record{}, map[int]error{}
	for worker := range marks {
		records[worker] = protocol.Record{Worker: worker, State: protocol.StateLost}
	}
	for worker, e := range found {
		r, err := protocol.DecodeRecord(worker, e)
		if err != nil && e.Value == nil { // Get says more
			r, err = GetRecord(s, worker)
		}
		if records[worker] = r; err != nil {
			delete(records, worker)
			bad[worker] = err
		}
	}
	return records, bad, err
}

// PutRecord saves r in place of the entry with r's version.
func PutRecord(s Line, r protocol.Record) (protocol.Record, error) {
	value, err := r.Encode()
	if err != nil {
		return r, err
	}
	e, err := s.Put(RecordKey(r.Worker), r.Version, value)
	if err != nil {
		return r, err
	}
	r.Version, r.Renewed = e.Version, e.Time
	return r, nil
}

// MarkWorker marks that the worker ID of r has a record. If it has a mark that was made for
// another record, an earlier record was lost, and the error matches ErrWiped.
func MarkWorker(s Line, r protocol.Record) error {
	_, err := s.Put(MarkKey(r.Worker), "", []byte(r.Token))
	if !errors.Is(err, driver.ErrConflict) {
		return err
	}
	is, err := s.Get(MarkKey(r.Worker))
	switch {
	case err == nil && is.Version == "":
		return fmt.Errorf("the store refuses to save the entry %s, although there is none", MarkKey(r.Worker))
	case errors.Is(err, driver.ErrBadRecord) || err == nil && string(is.Value) != r.Token:
		return fmt.Errorf("%w: worker %d had an earlier record", ErrWiped, r.Worker)
	}
	return err
}

// listed returns the entries with this prefix, by worker ID.
func listed(s Line, prefix string) (map[int]driver.Entry, error) {
	entries, err := s.List(prefix)
	found := map[int]driver.Entry{}
	for _, e := range entries {
		if worker, ok := WorkerOf(prefix, e.Key); ok {
			found[worker] = e
		}
	}
	return found, err
}

// SaveWithHistory saves r in place of old, adds the holding of old to the history if it has ended,
// and drops what ended longer ago than keep. It also returns the record that it tried to save.
func SaveWithHistory(s Line, keep time.Duration, old, r protocol.Record) (saved, tried protocol.Record, err error) {
	forget := s.Read().Own.Add(-keep).UTC()
	r, chunk := r.WithHistoryOf(old, forget)
	r.Version = old.Version
	var trimmed driver.Entry
	if chunk != nil {
		if r, trimmed, err = spill(s, r, chunk, forget); err != nil {
			return r, r, err
		}
	}
	saved, err = PutRecord(s, r)
	if err == nil && trimmed.Version != "" {
		// What remains if this fails is no longer a part of the history.
		_ = s.Delete(trimmed.Key, trimmed.Version)
	}
	return saved, r, err
}

// spill stores a chunk of r's history. If all of the oldest chunk has ended before forget, it
// leaves the history, and is returned to be deleted after r is saved. It also leaves the history if
// it cannot be read; then it is not known when its holdings ended.
func spill(s Line, r protocol.Record, chunk []protocol.Holding, forget time.Time) (protocol.Record, driver.Entry, error) {
	value, err := json.Marshal(chunk)
	if err != nil {
		return r, driver.Entry{}, err
	}
	key := ChunkKey(r.Worker, r.Chunks.Next-1)
	if _, err = s.Put(key, "", value); errors.Is(err, driver.ErrConflict) {
		is, bad := s.Get(key)
		if errors.Is(bad, driver.ErrBadRecord) && is.Version != "" { // it is replaced
			bad = nil
		}
		if err = bad; err == nil && string(is.Value) != string(value) {
			// The chunk is older than the loss of the record.
			_, err = s.Put(key, is.Version, value)
		}
	}
	if err != nil || r.Chunks.First >= r.Chunks.Next-1 {
		return r, driver.Entry{}, err
	}
	oldest, err := s.Get(ChunkKey(r.Worker, r.Chunks.First))
	if err != nil {
		return r, driver.Entry{}, nil // the next chunk's turn
	}
	holdings, err := DecodeChunk(oldest)
	if err == nil && slices.ContainsFunc(holdings, func(h protocol.Holding) bool { return !h.To.Before(forget) }) {
		return r, driver.Entry{}, nil
	}
	if err != nil {
		forget = slices.MaxFunc(r.Bounds, time.Time.Compare)
	}
	r.Chunks.First++
	r.Forgotten = times.Later(r.Forgotten, forget)
	return r, oldest, nil
}

// DecodeChunk returns the holdings in an entry of the history. Its error matches ErrBadRecord, also
// if this package cannot have saved them.
func DecodeChunk(e driver.Entry) (holdings []protocol.Holding, err error) {
	err = json.Unmarshal(e.Value, &holdings)
	if err == nil && (len(holdings) == 0 || slices.ContainsFunc(holdings, func(h protocol.Holding) bool { return !h.From.Before(h.To) })) {
		err = errors.New("it has no holdings, or one that ends before it begins")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", driver.ErrBadRecord, e.Key, err)
	}
	return holdings, nil
}

// GetDoor returns the store's door. If the door cannot be read and may be replaced, it has nothing
// but a version, and the error matches ErrBadRecord.
func GetDoor(s Line) (d protocol.Door, err error) {
	e, err := s.Get(DoorKey)
	if err == nil && e.Version != "" {
		bad := json.Unmarshal(e.Value, &d)
		if bad == nil && d.Name == "" {
			bad = errors.New("it has no name")
		}
		if bad == nil {
			bad = d.Layout.Validate()
		}
		if bad != nil {
			d, err = protocol.Door{}, fmt.Errorf("%w: %s: %w", driver.ErrBadRecord, e.Key, bad)
		}
	}
	d.Version = e.Version
	return d, err
}

// MaxConflicts is the largest number of conflicts of one save. The caller then rests.
const MaxConflicts = 8

// RefusesToSave returns the error of a save that met MaxConflicts conflicts.
func RefusesToSave(what string) error {
	return fmt.Errorf("the store refuses to save %s, although it has not changed: %w", what, driver.ErrConflict)
}
