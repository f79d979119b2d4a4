// The backfill program gives IDs to rows that already have a time, for example rows whose key has
// been a UUID so far. The IDs are unique and have the rows' own times. The program takes millions
// of rows in any order, in bounded memory.
//
// An ID is a time, a worker and a sequence number, so the rows of one tick need different sequence
// numbers. The worker ID must be reserved for the backfill: if no generator ever has it, no
// generator can issue the same IDs. To number the rows of a tick, the program must see all of them
// together. First it spreads the rows over files, by their tick. Then it numbers the rows of one
// file after another, with only one file's ticks in memory. The same input gives the same IDs, so
// you may run it again after a failure.
//
// Here the rows are invented. In your program they come from the database, and are updated in
// batches: UPDATE orders SET id = $2 WHERE uuid = $1.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// backfill gives IDs to rows.
type backfill struct {
	Layout snowflake.Layout

	// Workers are worker IDs that no generator has. The second is used if a tick has more rows than
	// sequence numbers, and so on.
	Workers []int

	Files int // the number of files; memory holds the ticks of one file
}

// row is a row of the table: its old key and its time.
type row struct {
	Key  uint64
	Time time.Time
}

// run reads rows until next returns io.EOF, and calls assign with the key and the ID
// of each row, in another order.
func (b backfill) run(next func() (row, error), assign func(key uint64, id snowflake.ID) error) (err error) {
	dir, err := os.MkdirTemp("", "backfill")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := b.spread(dir, next); err != nil {
		return err
	}
	for i := range b.Files {
		if err := b.number(filepath.Join(dir, fmt.Sprint(i)), assign); err != nil {
			return err
		}
	}
	return nil
}

// spread writes each row to the file of its tick: its key, and the first ID of the
// tick under the first worker ID.
func (b backfill) spread(dir string, next func() (row, error)) (err error) {
	files := make([]*bufio.Writer, b.Files)
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		files[i] = bufio.NewWriterSize(f, 16<<10)
	}
	for {
		r, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		first, err := b.Layout.Encode(snowflake.Parts{Time: r.Time, Worker: b.Workers[0]})
		if err != nil {
			return fmt.Errorf("row %d: %w", r.Key, err)
		}
		var record [16]byte
		binary.LittleEndian.PutUint64(record[:], r.Key)
		binary.LittleEndian.PutUint64(record[8:], uint64(first))
		if _, err := files[mix(uint64(first))%uint64(b.Files)].Write(record[:]); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// mix spreads neighbouring ticks over all files.
func mix(v uint64) uint64 { return v * 0x9e3779b97f4a7c15 >> 32 }

// number gives the rows of a file their IDs.
func (b backfill) number(path string, assign func(key uint64, id snowflake.ID) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	used := map[snowflake.ID]int{} // the number of rows so far, by the first ID of their tick
	for {
		var record [16]byte
		if _, err := io.ReadFull(in, record[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		key, first := binary.LittleEndian.Uint64(record[:]), snowflake.ID(binary.LittleEndian.Uint64(record[8:]))
		n := used[first]
		used[first]++
		p := b.Layout.Decode(first)
		worker := n >> b.Layout.SequenceBits
		if worker >= len(b.Workers) {
			return fmt.Errorf("more than %d rows of %s: take more worker IDs", n, p.Time.Format(time.RFC3339Nano))
		}
		p.Worker, p.Sequence = b.Workers[worker], n&(1<<b.Layout.SequenceBits-1)
		id, err := b.Layout.Encode(p)
		if err != nil {
			return err
		}
		if err := assign(key, id); err != nil {
			return err
		}
	}
}

func main() {
	if err := show(); err != nil {
		log.Fatal(err)
	}
}

// show makes IDs for a million rows of one minute, in random order.
func show() error {
	const rows = 1_000_000
	evening := time.Date(2026, 10, 31, 18, 0, 0, 0, time.UTC)
	timeOf := func(key uint64) time.Time {
		return evening.Add(time.Duration(mix(key)%uint64(time.Minute/time.Microsecond)) * time.Microsecond)
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(rows)
	next := func() (row, error) {
		if len(order) == 0 {
			return row{}, io.EOF
		}
		key := uint64(order[0])
		order = order[1:]
		return row{key, timeOf(key)}, nil
	}

	b := backfill{Layout: snowflake.DefaultLayout(), Workers: []int{1022, 1023}, Files: 64}
	seen := make(map[snowflake.ID]bool, rows)
	atTheirTimes, most := 0, 0
	err := b.run(next, func(key uint64, id snowflake.ID) error {
		p := b.Layout.Decode(id)
		if p.Time.Equal(timeOf(key).Truncate(time.Millisecond)) {
			atTheirTimes++
		}
		seen[id] = true
		most = max(most, p.Sequence+1)
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("rows:       %d\n", rows)
	fmt.Printf("unique IDs: %d\n", len(seen))
	fmt.Printf("stamped with their row's time: %d\n", atTheirTimes)
	fmt.Printf("most rows in a millisecond: %d\n", most)

	b.Layout.Epoch = snowflake.EpochAt(evening.AddDate(1, 0, 0))
	err = b.run(func() (row, error) { return row{7, evening}, nil }, nil)
	fmt.Printf("too early:  %v\n", err)
	return nil
}
