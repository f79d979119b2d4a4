package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/lanrat/extsort"
)

// record is an ID and its place in the input.
type record struct{ id, at int64 }

// sorter sorts more records than fit in memory, by ID and then by place. What does not
// fit is in a temporary file, which has no name if the system permits it.
type sorter struct {
	in    chan record
	out   <-chan record
	errs  <-chan error
	stop  context.CancelFunc
	ended chan struct{} // closed when all of in is taken, or the file cannot be written
}

// newSorter returns a sorter that keeps up to size records in memory. The caller must
// call close in the end.
func newSorter(dir string, size int) *sorter {
	const chunks = 9 // that are filled, sorted, written or waiting at the same time
	ctx, stop := context.WithCancel(context.Background())
	s := &sorter{in: make(chan record, 4096), stop: stop, ended: make(chan struct{})}
	sorting, out, errs := extsort.Generic(s.in, decode, encode, compare,
		&extsort.Config{ChunkSize: max(1, size/chunks), NumWorkers: 2, SortedChanBuffSize: 4096, TempFilesDir: dir})
	s.out, s.errs = out, errs
	go func() {
		sorting.Sort(ctx)
		close(s.ended)
	}()
	return s
}

func compare(a, b record) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) }

func encode(r record) ([]byte, error) {
	b := make([]byte, 0, 16)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(r.id)), uint64(r.at)), nil
}

func decode(b []byte) (record, error) {
	if len(b) != 16 {
		return record{}, fmt.Errorf("a record of %d bytes in the temporary file, not 16", len(b))
	}
	return record{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

func (s *sorter) add(r record) error {
	select {
	case s.in <- r: // without a look at the other channel, which costs more
		return nil
	default:
	}
	select {
	case s.in <- r:
		return nil
	case <-s.ended:
		return <-s.errs
	}
}

// each calls f with all records in order.
func (s *sorter) each(f func(record)) error {
	close(s.in)
	for r := range s.out {
		f(r)
	}
	return <-s.errs
}

// close removes the file.
func (s *sorter) close() {
	s.stop()
	<-s.ended
	for range s.out { // it ends once the file is closed
	}
}
