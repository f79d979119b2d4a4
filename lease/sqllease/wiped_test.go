package sqllease_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// deletedRows: whatever somebody deletes under a live holder, nobody gets a worker
// ID until Create has waited for all windows to end, and no ID is issued twice.
func deletedRows(t *testing.T, d database) {
	for _, test := range []struct {
		name string
		wipe string // for each of the tables
		of   []string
	}{
		{"one row", "DELETE FROM @ WHERE worker = 0", []string{""}},
		{"all rows", "DELETE FROM @", []string{""}},
		{"all rows of all tables", "DELETE FROM @", []string{"", "_history", "_used"}},
		{"the table", "DROP TABLE @", []string{""}},
		{"all tables", "DROP TABLE @", []string{"", "_history", "_used"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			const window = 300 * time.Millisecond
			table := newTable()
			s := d.created(t, table)
			holder := acquire(t, s, &lease.Options{Window: window, Owner: "holder"})
			ids := seen{}
			old := ids.generator(t, holder)
			if err := ids.issue(t, old); err != nil {
				t.Fatal(err)
			}
			for _, of := range test.of {
				d.exec(t, replaceAt(test.wipe, table+of))
			}
			refused(t, s, lease.ErrWiped, "sqllease: ")
			if _, err := s.LoadWorker(t.Context(), 0); !errors.Is(err, lease.ErrWiped) {
				t.Errorf("LoadWorker returns %v", err)
			}
			r := record(0)
			for r.Version = 1; r.Version <= 2; r.Version++ {
				if _, err := s.Save(t.Context(), r); !errors.Is(err, lease.ErrWiped) {
					t.Errorf("Save of version %d returns %v", r.Version, err)
				}
			}
			eventually(t, "the holder is told", func() bool { return errors.Is(holder.Stats().LastError, lease.ErrWiped) })
			hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := s.Create(hurried, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Create, which has to wait for an hour, returns %v", err)
			}
			refused(t, s, lease.ErrWiped, "sqllease: ")

			created := make(chan error)
			go func() { created <- s.Create(context.Background(), window) }()
			for waiting := true; waiting; {
				select {
				case err := <-created:
					if err != nil {
						t.Fatal(err)
					}
					waiting = false
				default:
					ids.issue(t, old)
				}
			}
			next := ids.generator(t, acquire(t, s, &lease.Options{Window: time.Minute, Owner: "next"}))
			for range 10_000 {
				ids.issue(t, old)
				if err := ids.issue(t, next); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func replaceAt(statement, table string) string {
	return strings.ReplaceAll(statement, "@", table)
}

// seen has the IDs of a test.
type seen map[snowflake.ID]bool

func (ids seen) generator(t *testing.T, l *lease.Lease) *snowflake.Generator {
	t.Helper()
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// issue issues an ID if the lease lets it.
func (ids seen) issue(t *testing.T, g *snowflake.Generator) error {
	t.Helper()
	id, err := g.NextID()
	if err != nil {
		return err
	}
	if ids[id] {
		t.Fatalf("%v was issued twice", g.Decode(id))
	}
	ids[id] = true
	return nil
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// createNew: a store that is not there is not made before two windows have passed,
// and one that is there is left as it is.
func createNew(t *testing.T, d database) {
	table := newTable()
	s := d.store(t, table)
	for _, window := range []time.Duration{-1, math.MinInt64, math.MaxInt64/2 + 1, math.MaxInt64} {
		if err := s.Create(t.Context(), window); !errors.Is(err, lease.ErrInvalidOptions) {
			t.Errorf("Create with a window of %v returns %v", window, err)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Create(done, time.Nanosecond); !errors.Is(err, context.Canceled) {
		t.Errorf("Create with a context that is done returns %v", err)
	}
	if _, err := s.Load(t.Context()); !errors.Is(err, sqllease.ErrNoTable) || !errors.Is(err, lease.ErrWiped) {
		t.Fatalf("there is a table: %v", err)
	}
	for _, window := range []time.Duration{0, math.MaxInt64 / 2} {
		hurried, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := s.Create(hurried, window); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Create with a window of %v returns %v", window, err)
		}
		cancel()
		refused(t, s, lease.ErrWiped, "sqllease: ")
	}
	other := make(chan error)
	go func() { other <- s.Create(context.Background(), time.Hour) }() // is done as soon as somebody else has made it
	d.created(t, table)
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	acquire(t, s, nil)
	if err := s.Create(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.Load(t.Context()); err != nil || len(snap.Records) != 1 {
		t.Errorf("after Create of what is there: %v, %v", snap.Records, err)
	}
}

// spoiltHistory: what this package did not write is never taken for none.
func spoiltHistory(t *testing.T, d database) {
	table := newTable()
	s := d.created(t, table)
	h := lease.Holding{Worker: 3, From: time.Unix(1e9, 1), To: time.Unix(1e9, 2), Token: "t"}
	r, err := s.SaveEnding(t.Context(), record(3), h, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"holding = ''", "holding = 'null'", "holding = substr(holding, 1, 20)", "worker = 4"} {
		d.exec(t, "UPDATE "+table+"_history SET "+bad)
		worker := 3
		if bad == "worker = 4" {
			worker = 4
		}
		if kept, err := s.History(t.Context(), worker); !errors.Is(err, lease.ErrBadRecord) {
			t.Errorf("%s: History returns %v, %v", bad, kept, err)
		}
	}
	if kept, err := s.History(t.Context(), 3); err != nil || len(kept) != 0 {
		t.Errorf("History of another worker ID returns %v, %v", kept, err)
	}
	r.Version++
	d.exec(t, "DROP TABLE "+table+"_history")
	if _, err := s.SaveEnding(t.Context(), r, h, time.Time{}); !errors.Is(err, sqllease.ErrNoTable) {
		t.Errorf("without a history SaveEnding returns %v", err)
	}
	if snap, err := s.Load(t.Context()); err != nil || snap.Records[0].Version != 1 {
		t.Errorf("half of a save was made: %v, %v", snap.Records, err)
	}
	if _, err := s.Save(t.Context(), r); err != nil {
		t.Errorf("a renewal needs no history: %v", err)
	}
}
