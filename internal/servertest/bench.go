//go:build unix

package servertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Bench measures a store with its server: what Saves measures, how long Acquire takes when 1, 50 and
// 200 clients call it at once, how many round trips a renewal takes, and how busy the server is when a
// fleet renews with the default window.
func Bench(b *testing.B, s *Server) {
	Saves(b, s.Open(b, s.Addr, s.space(b)))
	for _, n := range []int{1, 50, 200} {
		b.Run(fmt.Sprintf("acquire/clients=%d", n), func(b *testing.B) { benchAcquire(b, s, n) })
	}
	b.Run("renewal", func(b *testing.B) { benchRenewal(b, s) })
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("fleet/holders=%d", n), func(b *testing.B) { benchFleet(b, s, n) })
	}
}

// Saves measures what one client waits for: a first record, a renewal, a worker ID that
// changes hands, and a load of 1,024 records.
func Saves(b *testing.B, store lease.Store) {
	layout := snowflake.Layout{Unit: time.Millisecond, TimeBits: 33, WorkerBits: 30}
	next := 0
	record := func() lease.Record {
		next++
		return lease.Record{
			Worker: next - 1, Version: 1, Token: "a token of twenty-six bytes", State: lease.Held, Owner: "an owner", Host: "a host", PID: 4242,
			Layout: layout, Bounds: []time.Time{time.Now()}, Window: time.Second,
		}
	}
	save := func(b *testing.B, r lease.Record, ended *lease.Holding) {
		b.Helper()
		var err error
		if h, ok := store.(lease.Historian); ok && ended != nil {
			_, err = h.SaveEnding(b.Context(), r, *ended, time.Unix(1e9, 0))
		} else {
			_, err = store.Save(b.Context(), r)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("load", func(b *testing.B) {
		for next < 1024 {
			save(b, record(), nil)
		}
		for b.Loop() {
			if snap, err := store.Load(b.Context()); err != nil || len(snap.Records) != next {
				b.Fatal(len(snap.Records), err)
			}
		}
	})
	b.Run("save/first", func(b *testing.B) {
		for b.Loop() {
			save(b, record(), nil)
		}
	})
	again := func(takeover bool) func(*testing.B) {
		return func(b *testing.B) {
			r := record()
			save(b, r, nil)
			for b.Loop() {
				ended := &lease.Holding{
					Worker: r.Worker, From: time.Unix(2e9+int64(r.Version), 0), To: time.Unix(2e9+int64(r.Version)+1, 0),
					Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
				}
				if !takeover {
					ended = nil
				}
				r.Version++
				save(b, r, ended)
			}
		}
	}
	b.Run("save/renewal", again(false))
	b.Run("save/takeover", again(true))
}

// benchAcquire times 200 acquisitions in each iteration, n at once.
func benchAcquire(b *testing.B, s *Server, n int) {
	var all []time.Duration
	for range b.N * 200 / n {
		b.StopTimer()
		stores := s.clients(b, n, s.Addr, s.space(b))
		for _, store := range stores { // connects
			if _, err := store.LoadWorker(context.Background(), 0); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		holders, took := acquireAll(b, stores, n, long)
		b.StopTimer()
		for _, h := range holders {
			h.crash()
		}
		all = append(all, took...)
		b.StartTimer()
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(q*float64(len(all)-1))].Seconds() * 1e3 }
	b.ReportMetric(at(0.5), "ms-median")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(0, "ns/op")
}

// benchRenewal counts round trips in a proxy: a trip begins when something is sent to the server after
// something came from it.
func benchRenewal(b *testing.B, s *Server) {
	proxy := NewProxy(b, s.Addr)
	store := s.Open(b, proxy.Addr(), s.space(b))
	o := lease.Options{Window: 6 * s.window()}
	mustAcquire(b, store, o)
	h := mustAcquire(b, store, o)
	defer h.crash()
	begun, turns := h.Stats().Renewals, proxy.Turns()
	b.ResetTimer()
	time.Sleep(20 * s.window())
	b.StopTimer()
	renewals := 2 * (h.Stats().Renewals - begun) // two holders
	b.ReportMetric(float64(proxy.Turns()-turns)/float64(renewals), "trips/renewal")
	b.ReportMetric(0, "ns/op")
}

func benchFleet(b *testing.B, s *Server, n int) {
	stores := s.clients(b, 16, s.Addr, s.space(b))
	var holders []*holder
	for len(holders) < n { // a few at a time, as a fleet is deployed
		few, _ := acquireAll(b, stores, 32, 3*time.Second)
		holders = append(holders, few...)
	}
	count := func() (sum uint64) {
		for _, h := range holders {
			sum += h.Stats().Renewals
		}
		return sum
	}
	time.Sleep(3 * time.Second)
	renewals, cpu, begun := count(), s.CPU(), time.Now()
	b.ResetTimer()
	time.Sleep(10 * time.Second)
	b.StopTimer()
	took := time.Since(begun).Seconds()
	b.ReportMetric(float64(count()-renewals)/took, "renewals/s")
	b.ReportMetric((s.CPU()-cpu).Seconds()/took*100, "%cpu-of-a-core")
	var failures uint64
	for _, h := range holders {
		failures += h.Stats().Failures
		h.crash()
	}
	b.ReportMetric(float64(failures), "failures")
	b.ReportMetric(0, "ns/op")
}
