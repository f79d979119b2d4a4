//go:build unix

package servertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Bench measures a store with its server: how long Acquire takes where 1, 50 and
// 200 clients do so at once, and where a worker ID is taken over, how long a
// renewal takes, how many round trips a renewal takes, and what the
// renewals of a fleet with the default window cost the server.
func Bench(b *testing.B, s *Server) {
	for _, n := range []int{1, 50, 200} {
		b.Run(fmt.Sprintf("acquire/clients=%d", n), func(b *testing.B) { benchAcquire(b, s, n) })
	}
	b.Run("takeover", func(b *testing.B) { benchTakeover(b, s) })
	b.Run("save", func(b *testing.B) { benchSave(b, s) })
	b.Run("renewal", func(b *testing.B) { benchRenewal(b, s) })
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("fleet/holders=%d", n), func(b *testing.B) { benchFleet(b, s, n) })
	}
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
	report(b, all)
}

// benchRenewal counts round trips by what a proxy sees: what is sent to the
// server after something came from it.
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
