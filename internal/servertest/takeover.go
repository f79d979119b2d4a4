//go:build unix

package servertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// benchTakeover times taking a worker ID over from an owner that has released it: in each iteration
// 200 times, so that there is a history of as many.
func benchTakeover(b *testing.B, s *Server) {
	store := s.Open(b, s.Addr, s.space(b))
	o := lease.Options{Count: 1, Window: long}
	var all []time.Duration
	for range b.N * 200 {
		begun := time.Now()
		h, err := acquire(b, store, o)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(begun))
		if err := h.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	report(b, all)
}

// benchSave times renewals, one after the other: 1,000 in each iteration.
func benchSave(b *testing.B, s *Server) {
	store := s.Open(b, s.Addr, s.space(b))
	h := mustAcquire(b, store, lease.Options{Count: 1, Window: long})
	defer h.crash()
	snap, err := store.Load(context.Background())
	if err != nil || len(snap.Records) != 1 {
		b.Fatal(snap, err)
	}
	r := snap.Records[0]
	var all []time.Duration
	for range b.N * 1000 {
		r.Version++
		begun := time.Now()
		if r, err = store.Save(context.Background(), r); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(begun))
	}
	report(b, all)
}

// report reports the median and the 99th percentile in place of the mean.
func report(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(q*float64(len(all)-1))].Seconds() * 1e3 }
	b.ReportMetric(at(0.5), "ms-median")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(0, "ns/op")
}
