package lease

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

	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// The keys of a store. A mark says that its worker ID has had a record. It is made after the
// record and before anything is stamped.
const (
	doorKey       = "store"
	recordPrefix  = "worker/"
	markPrefix    = "mark/"
	ownerPrefix   = "owner/"
	historyPrefix = "history/"
)

func recordKey(worker int) string { return recordPrefix + strconv.Itoa(worker) }
func markKey(worker int) string   { return markPrefix + strconv.Itoa(worker) }

// ownerKey is the key under which an owner's last worker ID is kept.
func ownerKey(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return ownerPrefix + hex.EncodeToString(sum[:16])
}

// decodeOwner returns the worker ID in the entry of an owner and, if one is noted there, the process
// that has found a namesake. ok is false if there is no entry, or if it cannot be read.
func decodeOwner(e Entry) (worker int, by string, ok bool) {
	digits, by, _ := strings.Cut(string(e.Value), " ")
	worker, err := strconv.Atoi(digits)
	return worker, by, e.Version != "" && err == nil
}

func chunksPrefix(worker int) string { return historyPrefix + strconv.Itoa(worker) + "/" }

func chunkKey(worker, chunk int) string { return chunksPrefix(worker) + strconv.Itoa(chunk) }

// workerOf returns the worker ID in a key with this prefix.
func workerOf(prefix, key string) (worker int, ok bool) {
	digits, ok := strings.CutPrefix(key, prefix)
	worker, err := strconv.Atoi(digits)
	return worker, ok && err == nil && strconv.Itoa(worker) == digits
}

// getRecord returns the record of a worker ID. If there is no entry, its Saves is 0.
func getRecord(s line, worker int) (protocol.Record, error) {
	e, err := s.get(recordKey(worker))
	if err != nil {
		return protocol.Record{Worker: worker}, err
	}
	return protocol.DecodeRecord(worker, e)
}

// getMarked is getRecord. If the worker ID has a mark and no record, the State is Lost.
func getMarked(s line, worker int) (protocol.Record, error) {
	r, err := getRecord(s, worker)
	if err != nil || r.Version != "" {
		return r, err
	}
	mark, err := s.get(markKey(worker))
	if is := mark.Version != "" || errors.Is(err, ErrBadRecord); !is {
		return r, err
	}
	// The record was there before the mark, so it is lost only if it is not there now.
	r, err = getRecord(s, worker)
	if err == nil && r.Version == "" {
		r.State = StateLost
	}
	return r, err
}

// allRecords returns the records of all worker IDs that were ever used, as getMarked does, and why
// the others cannot be read.
func allRecords(s line) (records map[int]protocol.Record, bad map[int]error, err error) {
	marks, err := listed(s, markPrefix) // first, because the record was there before the mark
	if err != nil {
		return nil, nil, err
	}
	found, err := listed(s, recordPrefix)
	records, bad = map[int]protocol.Record{}, map[int]error{}
	for worker := range marks {
		records[worker] = protocol.Record{Worker: worker, State: StateLost}
	}
	for worker, e := range found {
		r, err := protocol.DecodeRecord(worker, e)
		if err != nil && e.Value == nil { // Get says more
			r, err = getRecord(s, worker)
		}
		if records[worker] = r; err != nil {
			delete(records, worker)
			bad[worker] = err
		}
	}
	return records, bad, err
}

// putRecord saves r in place of the entry with r's version.
func putRecord(s line, r protocol.Record) (protocol.Record, error) {
	value, err := r.Encode()
	if err != nil {
		return r, err
	}
	e, err := s.put(recordKey(r.Worker), r.Version, value)
	if err != nil {
		return r, err
	}
	r.Version, r.Renewed = e.Version, e.Time
	return r, nil
}

// markWorker marks that the worker ID of r has a record. If it has a mark that was made for
// another record, an earlier record was lost, and the error matches ErrWiped.
func markWorker(s line, r protocol.Record) error {
	_, err := s.put(markKey(r.Worker), "", []byte(r.Token))
	if !errors.Is(err, ErrConflict) {
		return err
	}
	is, err := s.get(markKey(r.Worker))
	switch {
	case err == nil && is.Version == "":
		return fmt.Errorf("the store refuses to save the entry %s, although there is none", markKey(r.Worker))
	case errors.Is(err, ErrBadRecord) || err == nil && string(is.Value) != r.Token:
		return fmt.Errorf("%w: worker %d had an earlier record", ErrWiped, r.Worker)
	}
	return err
}

// isStray reports whether r is the first record of a newcomer that has not noticed yet that all
// entries were lost since it read them. It notices before it stamps (search.confirm), also if
// another record replaces r meanwhile.
func isStray(s line, r protocol.Record) (bool, error) {
	if r.Saves > 1 || r.Marked {
		return false, nil
	}
	d, err := getDoor(s)
	if errors.Is(err, ErrBadRecord) { // the newcomer may have looked again before
		return false, nil
	}
	return err == nil && d.Name != r.Store, err
}

// listed returns the entries with this prefix, by worker ID.
func listed(s line, prefix string) (map[int]Entry, error) {
	entries, err := s.list(prefix)
	found := map[int]Entry{}
	for _, e := range entries {
		if worker, ok := workerOf(prefix, e.Key); ok {
			found[worker] = e
		}
	}
	return found, err
}

// replace saves r in place of old, and drops from the history what ended longer ago than keep. It
// also returns the record that it tried to save.
func replace(s line, keep time.Duration, old, r protocol.Record) (saved, tried protocol.Record, err error) {
	forget := s.read().own.Add(-keep).UTC()
	r, chunk := r.Succeed(old, forget)
	r.Version = old.Version
	var trimmed Entry
	if chunk != nil {
		if r, trimmed, err = spill(s, r, chunk, forget); err != nil {
			return r, r, err
		}
	}
	saved, err = putRecord(s, r)
	if err == nil && trimmed.Version != "" {
		// What remains if this fails is no longer a part of the history.
		_ = s.delete(trimmed.Key, trimmed.Version)
	}
	return saved, r, err
}

// spill stores a chunk of r's history. If all of the oldest chunk has ended before forget, it
// leaves the history, and is returned to be deleted after r is saved. It also leaves the history if
// it cannot be read; then it is not known when its holdings ended.
func spill(s line, r protocol.Record, chunk []protocol.Holding, forget time.Time) (protocol.Record, Entry, error) {
	value, err := json.Marshal(chunk)
	if err != nil {
		return r, Entry{}, err
	}
	key := chunkKey(r.Worker, r.Chunks.Next-1)
	if _, err = s.put(key, "", value); errors.Is(err, ErrConflict) {
		is, bad := s.get(key)
		if errors.Is(bad, ErrBadRecord) && is.Version != "" { // it is made anew
			bad = nil
		}
		if err = bad; err == nil && string(is.Value) != string(value) {
			// The chunk is older than the loss of the record.
			_, err = s.put(key, is.Version, value)
		}
	}
	if err != nil || r.Chunks.First >= r.Chunks.Next-1 {
		return r, Entry{}, err
	}
	oldest, err := s.get(chunkKey(r.Worker, r.Chunks.First))
	if err != nil {
		return r, Entry{}, nil // the next chunk's turn
	}
	holdings, err := decodeChunk(oldest)
	if err == nil && slices.ContainsFunc(holdings, func(h protocol.Holding) bool { return !h.To.Before(forget) }) {
		return r, Entry{}, nil
	}
	if err != nil {
		forget = slices.MaxFunc(r.Bounds, time.Time.Compare)
	}
	r.Chunks.First++
	r.Forgotten = times.Later(r.Forgotten, forget)
	return r, oldest, nil
}

// decodeChunk returns the holdings in an entry of the history. Its error matches ErrBadRecord, also
// if this package cannot have saved them.
func decodeChunk(e Entry) (holdings []protocol.Holding, err error) {
	err = json.Unmarshal(e.Value, &holdings)
	if err == nil && (len(holdings) == 0 || slices.ContainsFunc(holdings, func(h protocol.Holding) bool { return !h.From.Before(h.To) })) {
		err = errors.New("it has no holdings, or one that ends before it begins")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBadRecord, e.Key, err)
	}
	return holdings, nil
}

// getDoor returns the store's door. If the door cannot be read and may be replaced, it has nothing
// but a version, and the error matches ErrBadRecord.
func getDoor(s line) (d protocol.Door, err error) {
	e, err := s.get(doorKey)
	if err == nil && e.Version != "" {
		bad := json.Unmarshal(e.Value, &d)
		if bad == nil && d.Name == "" {
			bad = errors.New("it has no name")
		}
		if bad == nil {
			bad = d.Layout.Validate()
		}
		if bad != nil {
			d, err = protocol.Door{}, fmt.Errorf("%w: %s: %w", ErrBadRecord, e.Key, bad)
		}
	}
	d.Version = e.Version
	return d, err
}

// maxConflicts is how many conflicts one save may meet. The caller then rests.
const maxConflicts = 8

// refusesToSave returns the error of a save that met maxConflicts conflicts.
func refusesToSave(what string) error {
	return fmt.Errorf("the store refuses to save %s, which is what it was: %w", what, ErrConflict)
}
