package lease

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// The file store keeps the history of a worker ID in worker-N.history0 or
// worker-N.history1: a Holding a line, and its checksum. The record says which of
// the two files, and how much of it, is the history. So a Holding is there as soon as
// the record is that was saved with it, and never without it. What lies past that
// length was written by a save that did not come to its end.

// history is what a record's file says of the history.
type history struct {
	File    int       `json:"file"`    // 0 or 1
	Size    int64     `json:"size"`    // in bytes
	Trimmed int64     `json:"trimmed"` // Size after the last trimming
	Forget  time.Time `json:"forget"`  // what ended before is not part of the history
}

// trimAt is how large a history is when it is trimmed for the first time.
const trimAt = 64 << 10

func (s *fileStore) historyPath(worker, file int) string {
	return s.path(worker, ".history"+strconv.Itoa(file))
}

// keep writes ended to the history h, durably, and returns the history that has
// it. h stays as it is.
func (s *fileStore) keep(h history, ended Holding, forget time.Time) (history, error) {
	line, err := encodeHolding(ended)
	if err != nil {
		return h, err
	}
	h.Forget = later(h.Forget, forget.UTC())
	if h.Size+int64(len(line)) <= max(trimAt, 2*h.Trimmed) {
		path := s.historyPath(ended.Worker, h.File)
		if err := s.append(path, h.Size, line); err != nil {
			return h, &FileError{Path: path, Err: err}
		}
		h.Size += int64(len(line))
		return h, nil
	}
	kept, err := s.holdings(ended.Worker, h)
	if err != nil {
		return h, err
	}
	var b []byte
	for _, k := range append(kept, ended) {
		if line, err = encodeHolding(k); err != nil {
			return h, err
		}
		b = append(b, line...)
	}
	h.File = 1 - h.File
	h.Size = int64(len(b))
	h.Trimmed = h.Size
	path := s.historyPath(ended.Worker, h.File)
	if err := s.replace(path, b); err != nil {
		return h, &FileError{Path: path, Err: err}
	}
	return h, nil
}

// append writes b to a file that has size bytes that count.
func (s *fileStore) append(path string, size int64, b []byte) error {
	s.step("append")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < size {
		return fmt.Errorf("%w: it has %d bytes of %d", ErrBadRecord, info.Size(), size)
	}
	if _, err := f.WriteAt(b, size); err != nil {
		return err
	}
	s.step("sync history")
	if err := f.Sync(); err != nil {
		return err
	}
	if size == 0 { // it may be new
		return syncDir(filepath.Dir(path))
	}
	return nil
}

func (s *fileStore) History(ctx context.Context, worker int) ([]Holding, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	for {
		r, err := s.read(worker)
		if err != nil {
			return nil, err
		}
		kept, err := s.holdings(worker, r.History)
		if err == nil {
			return kept, nil
		}
		if now, again := s.read(worker); again != nil || now.History == r.History {
			return nil, err
		}
		// It was trimmed meanwhile, for the second time.
	}
}

// holdings reads a history.
func (s *fileStore) holdings(worker int, h history) ([]Holding, error) {
	if h.Size == 0 {
		return nil, nil
	}
	path := s.historyPath(worker, h.File)
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	defer f.Close()
	kept, err := decodeHoldings(bufio.NewReader(io.LimitReader(f, h.Size)), h)
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

// decodeHoldings reads what a history has to its end.
func decodeHoldings(r *bufio.Reader, h history) ([]Holding, error) {
	var kept []Holding
	var size int64
	for {
		line, err := r.ReadBytes('\n')
		size += int64(len(line))
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		cut := max(0, len(line)-len(" 01234567\n"))
		if !bytes.Equal(withChecksum(line[:cut], ' '), line) {
			return nil, fmt.Errorf("%w: the checksum of line %d is not that of its content", ErrBadRecord, len(kept)+1)
		}
		var k Holding
		if err := json.Unmarshal(line[:cut], &k); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
		}
		kept = slices.DeleteFunc(kept, k.same)
		kept = append(kept, k)
	}
	if size != h.Size {
		return nil, fmt.Errorf("%w: it has %d bytes of %d", ErrBadRecord, size, h.Size)
	}
	return slices.DeleteFunc(kept, func(k Holding) bool { return k.To.Before(h.Forget) }), nil
}
