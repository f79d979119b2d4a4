//go:build unix && go1.25

package servertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Bench measures a store with its server: Puts, the duration of Acquire for 1, 50 and 200
// concurrent clients, and the server's load while a fleet renews.
func Bench(b *testing.B, s *Server) {
	Puts(b, s.client(b, s.Addr, NewSpace()))
	for _, n := range []int{1, 50, 200} {
		b.Run(fmt.Sprintf("acquire/clients=%d", n), func(b *testing.B) { benchAcquire(b, s, n) })
	}
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("fleet/holders=%d", n), func(b *testing.B) { benchFleet(b, s, n) })
	}
}

// Puts measures the methods of a store, with values as long as a record: Put of a new entry and of
// an existing one, as in a renewal, Get, and List of 1,024 entries.
func Puts(b *testing.B, store lease.Store) {
	value, made := []byte(strings.Repeat("a record ", 50)), 0
	put := func(b *testing.B, key, old string) string {
		return Must(store.Put(b.Context(), key, old, value))(b).Version
	}
	first := func(b *testing.B) {
		made++
		put(b, fmt.Sprintf("worker/%d", made), "")
	}
	for made < 1024 {
		first(b)
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			require.Len(b, Must(store.List(b.Context(), "worker/"))(b), made)
		}
	})
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			require.NotEmpty(b, Must(store.Get(b.Context(), "worker/7"))(b).Version)
		}
	})
	b.Run("put/first", func(b *testing.B) {
		for b.Loop() {
			first(b)
		}
	})
	b.Run("put/renewal", func(b *testing.B) {
		made++
		key := fmt.Sprintf("worker/%d", made)
		version := put(b, key, "")
		for b.Loop() {
			version = put(b, key, version)
		}
	})
}

// benchAcquire times 200 acquisitions in each iteration, n of them concurrently.
func benchAcquire(b *testing.B, s *Server, n int) {
	var all []time.Duration
	for range b.N * 200 / n {
		stores := s.clients(b, n, s.Addr, NewSpace())
		for _, store := range stores { // connects
			Must(store.Get(b.Context(), "none"))(b)
		}
		Do(b, mustAcquire(b, stores[0], lease.Options{Owner: "makes the store"}).Release(b.Context()))
		holders, took := acquireAll(b, stores, n, long)
		for _, h := range holders {
			h.Network.Cut(true)
		}
		all = append(all, took...)
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[int(q*float64(len(all)-1))].Seconds() * 1e3 }
	b.ReportMetric(at(0.5), "ms-median")
	b.ReportMetric(at(0.99), "ms-p99")
	b.ReportMetric(0, "ns/op")
}

func benchFleet(b *testing.B, s *Server, n int) {
	window := cmp.Or(s.Fleet, 3*time.Second)
	stores := s.clients(b, 16, s.Addr, NewSpace())
	var holders []*netcut.Holder
	for len(holders) < n { // in groups, as a fleet is deployed
		few, _ := acquireAll(b, stores, 32, window)
		holders = append(holders, few...)
	}
	count := func() (sum uint64) {
		for _, h := range holders {
			sum += h.Stats().Renewals
		}
		return sum
	}
	time.Sleep(window / 3) // until the first has renewed
	renewals, cpu, begun := count(), s.cpu(), time.Now()
	time.Sleep(max(10*time.Second, window/3))
	took := time.Since(begun).Seconds()
	b.ReportMetric(float64(count()-renewals)/took, "renewals/s")
	b.ReportMetric((s.cpu()-cpu).Seconds()/took*100, "%cpu-of-a-core")
	var failures uint64
	for _, h := range holders {
		failures += h.Stats().Failures
		h.Network.Cut(true)
	}
	b.ReportMetric(float64(failures), "failures")
	b.ReportMetric(0, "ns/op")
}
