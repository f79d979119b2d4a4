package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The file store keeps the history of a worker ID in worker-N.history0 or
// worker-N.history1: one Holding a line, with its checksum. The record says which of the
// two files is the history, and how many bytes of it. So a Holding is in the history
// exactly when the record that was saved with it is stored. Bytes past this length come
// from a save that did not finish.

// history is what a record's file says about the history.
type history struct {
	File    int       `json:"file"`    // 0 or 1
	Size    int64     `json:"size"`    // in bytes
	Trimmed int64     `json:"trimmed"` // Size after the last trimming
	Forget  time.Time `json:"forget"`  // holdings that ended before it are not part of the history
}

// trimAt is the size at which a history is trimmed for the first time.
const trimAt = 64 << 10

func (s *fileStore) historyPath(worker, file int) string {
	return s.path(worker, ".history"+strconv.Itoa(file))
}

// keep appends ended to the history h, durably, and returns the longer history. What h has
// stays in place.
func (s *fileStore) keep(op *operation, h history, ended Holding, forget time.Time) (history, error) {
	b, err := encodeHolding(ended)
	if err != nil {
		return h, err
	}
	h.Forget = later(h.Forget, forget.UTC())
	if h.Size+int64(len(b)) > max(trimAt, 2*h.Trimmed) {
		return s.trim(op, h, ended)
	}
	path := s.historyPath(ended.Worker, h.File)
	if err := op.write(path, h.Size, b); err != nil {
		return h, err
	}
	if h.Size == 0 { // the file may be new
		err = op.syncDir(s.dir)
	}
	h.Size += int64(len(b))
	return h, err
}

// trim writes ended, and what is still to be kept of h, to the other file.
func (s *fileStore) trim(op *operation, h history, ended Holding) (history, error) {
	kept, err := s.holdings(op, ended.Worker, h)
	if err != nil {
		return h, err
	}
	var all []byte
	for _, k := range append(kept, ended) {
		b, err := encodeHolding(k)
		if err != nil {
			return h, err
		}
		all = append(all, b...)
	}
	h.File = 1 - h.File
	h.Size, h.Trimmed = int64(len(all)), int64(len(all))
	return h, op.replace(s.historyPath(ended.Worker, h.File), all)
}

func (s *fileStore) History(ctx context.Context, worker int) ([]Holding, error) {
	return run(ctx, s, fmt.Sprint("read ", worker), func(op *operation) ([]Holding, error) {
		for {
			r, err := s.readOne(op, worker)
			if err != nil {
				return nil, err
			}
			kept, err := s.holdings(op, worker, r.History)
			if err == nil {
				return kept, nil
			}
			if now, again := s.readOne(op, worker); again != nil || now.History == r.History {
				return nil, err
			}
			// Two saves trimmed it meanwhile: read the record again.
		}
	})
}

func (s *fileStore) holdings(op *operation, worker int, h history) ([]Holding, error) {
	if h.Size == 0 {
		return nil, nil
	}
	path := s.historyPath(worker, h.File)
	b, err := op.read(path)
	if err != nil {
		return nil, err
	}
	kept, err := decodeHoldings(b, h)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	return kept, nil
}

func encodeHolding(h Holding) ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return withChecksum(b, ' '), nil
}

// decodeHoldings returns the holdings of the history h in the file content b.
func decodeHoldings(b []byte, h history) ([]Holding, error) {
	if int64(len(b)) < h.Size {
		return nil, fmt.Errorf("%w: it has %d bytes of %d", ErrBadRecord, len(b), h.Size)
	}
	var kept []Holding
	for line := range bytes.Lines(b[:h.Size]) {
		content := line[:max(0, len(line)-len(" 01234567\n"))]
		if !bytes.Equal(withChecksum(content, ' '), line) {
			return nil, fmt.Errorf("%w: a line does not match its checksum", ErrBadRecord)
		}
		var k Holding
		if err := json.Unmarshal(content, &k); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
		}
		kept = append(slices.DeleteFunc(kept, k.same), k)
	}
	return slices.DeleteFunc(kept, func(k Holding) bool { return k.To.Before(h.Forget) }), nil
}
