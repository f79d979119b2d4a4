package audit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// record is an ID and its place in the input.
type record struct {
	id uint64
	at int64
}

// sorter sorts more records than fit in memory. It sorts runs of records, writes
// each run to a file, and merges the files. If records have the same ID, they keep
// the order in which they were added.
type sorter struct {
	dir      string // for the runs
	size     int    // of a run
	run      []record
	spare    []record
	sorted   bool // run is sorted so far
	runs     []*os.File
	spilling chan error // gets the result of the run that is being written; nil if there is no such run
}

// newSorter returns a sorter that keeps up to two runs of size records in memory.
func newSorter(dir string, size int) *sorter {
	return &sorter{dir: dir, size: size, sorted: true}
}

func (s *sorter) add(r record) error {
	if n := len(s.run); n > 0 && s.run[n-1].id > r.id {
		s.sorted = false
	}
	s.run = append(s.run, r)
	if len(s.run) < s.size {
		return nil
	}
	return s.spill()
}

// spill waits until the last run is written, and begins to write this run.
func (s *sorter) spill() error {
	if err := s.wait(); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "run-*")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name()) // so that nothing is left after an interrupt; if this fails, close removes the file
	s.runs = append(s.runs, f)
	full, sorted := s.run, s.sorted
	if s.spare == nil {
		s.spare = make([]record, 0, s.size)
	}
	s.run, s.spare, s.sorted = s.spare[:0], full, true
	s.spilling = make(chan error, 1)
	go func() {
		if !sorted {
			sortRun(full)
		}
		s.spilling <- writeRun(f, full)
	}()
	return nil
}

// wait waits until no run is being written.
func (s *sorter) wait() error {
	if s.spilling == nil {
		return nil
	}
	err := <-s.spilling
	s.spilling = nil
	return err
}

// close removes the files.
func (s *sorter) close() error {
	err := s.wait()
	for _, f := range s.runs {
		err = errors.Join(err, f.Close())
		if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	s.runs = nil
	return err
}

// each calls f with all records in order.
func (s *sorter) each(f func(record)) error {
	if err := s.wait(); err != nil {
		return err
	}
	s.spare = nil
	if !s.sorted {
		sortRun(s.run)
	}
	var m merger
	for _, file := range s.runs {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		m.add(&source{in: bufio.NewReaderSize(file, 64<<10)})
	}
	m.add(&source{block: s.run})
	m.each(f)
	return m.err
}

// sortRun sorts by ID, with a radix sort that begins at the lowest byte. It skips
// bytes that all IDs share.
func sortRun(run []record) {
	var counts [8][256]int
	for _, r := range run {
		for b := range counts {
			counts[b][byte(r.id>>(8*b))]++
		}
	}
	from, to := run, make([]record, len(run))
	for b := range counts {
		if len(run) == 0 || counts[b][byte(run[0].id>>(8*b))] == len(run) {
			continue
		}
		next, sum := &counts[b], 0
		for i, n := range next {
			next[i], sum = sum, sum+n
		}
		for _, r := range from {
			d := byte(r.id >> (8 * b))
			to[next[d]] = r
			next[d]++
		}
		from, to = to, from
	}
	if len(run) > 0 && &from[0] != &run[0] {
		copy(run, from)
	}
}

// writeRun writes a run to its file. For each record the file has two varints: the
// differences to the last record's ID and place.
func writeRun(f *os.File, run []record) error {
	w := bufio.NewWriterSize(f, 256<<10)
	var last record
	var b [2 * binary.MaxVarintLen64]byte
	for _, r := range run {
		n := binary.PutUvarint(b[:], r.id-last.id)
		n += binary.PutVarint(b[n:], r.at-last.at)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		last = r
	}
	return w.Flush()
}

// source reads a sorted run.
type source struct {
	block []record // records that are read and not yet merged
	in    *bufio.Reader
	buf   []record
	last  record
}

// fill reads a block. At the end of the run, the block is empty.
func (s *source) fill() error {
	if s.in == nil {
		return nil
	}
	if s.buf == nil {
		s.buf = make([]record, 0, 4096)
	}
	s.buf = s.buf[:0]
	for len(s.buf) < cap(s.buf) {
		id, at, err := s.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		s.last = record{s.last.id + id, s.last.at + at}
		s.buf = append(s.buf, s.last)
	}
	s.block = s.buf
	return nil
}

// read reads the two numbers of a record. It is faster if the buffer has all of
// their bytes.
func (s *source) read() (id uint64, at int64, err error) {
	if b, err := s.in.Peek(2 * binary.MaxVarintLen64); err == nil {
		id, n := binary.Uvarint(b)
		at, m := binary.Varint(b[n:])
		_, err = s.in.Discard(n + m)
		return id, at, err
	}
	if id, err = binary.ReadUvarint(s.in); err != nil {
		return 0, 0, err
	}
	if at, err = binary.ReadVarint(s.in); err != nil {
		return 0, 0, fmt.Errorf("a run ends within a record: %w", io.ErrUnexpectedEOF)
	}
	return id, at, nil
}

// merger merges sources. It keeps them in a heap, by their first records.
type merger struct {
	heap []*source
	err  error
}

func (m *merger) add(s *source) {
	if len(s.block) == 0 {
		if m.err = errors.Join(m.err, s.fill()); len(s.block) == 0 {
			return
		}
	}
	m.heap = append(m.heap, s)
	for i := len(m.heap) - 1; i > 0 && m.less(i, (i-1)/2); i = (i - 1) / 2 {
		m.heap[i], m.heap[(i-1)/2] = m.heap[(i-1)/2], m.heap[i]
	}
}

func (m *merger) less(i, j int) bool {
	a, b := m.heap[i].block[0], m.heap[j].block[0]
	return a.id < b.id || a.id == b.id && a.at < b.at
}

// each calls f with the records of all sources, in order. It takes as many records
// from one source as it can before it looks at the other sources.
func (m *merger) each(f func(record)) {
	for len(m.heap) > 0 && m.err == nil {
		s := m.heap[0]
		limit := m.second()
		for len(s.block) > 0 {
			r := s.block[0]
			if r.id > limit.id || r.id == limit.id && r.at > limit.at {
				break
			}
			f(r)
			s.block = s.block[1:]
			if len(s.block) == 0 {
				m.err = s.fill()
			}
		}
		if len(s.block) == 0 {
			last := len(m.heap) - 1
			m.heap[0], m.heap = m.heap[last], m.heap[:last]
		}
		m.down()
	}
}

// second returns the least first record of all sources but the heap's first.
func (m *merger) second() record {
	limit := record{^uint64(0), 1<<63 - 1}
	for i := 1; i < min(3, len(m.heap)); i++ {
		if r := m.heap[i].block[0]; r.id < limit.id || r.id == limit.id && r.at < limit.at {
			limit = r
		}
	}
	return limit
}

// down restores the heap after its first source has changed.
func (m *merger) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(m.heap) {
			return
		}
		if child+1 < len(m.heap) && m.less(child+1, child) {
			child++
		}
		if !m.less(child, i) {
			return
		}
		m.heap[i], m.heap[child] = m.heap[child], m.heap[i]
		i = child
	}
}
