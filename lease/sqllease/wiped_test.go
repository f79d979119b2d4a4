package sqllease_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// createNew: Create makes a missing store only after two windows. If the store exists, it changes nothing.
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
	go func() { other <- s.Create(context.Background(), time.Hour) }() // returns as soon as another call has made the store
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

// spoiltHistory: if the history has data that this package did not write, the store refuses it.
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
