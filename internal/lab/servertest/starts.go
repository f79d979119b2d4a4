//go:build unix && go1.25

package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Starts measures a start in a store in which half of the worker IDs are held, for ten, 1,000 and
// 100,000 holders: its requests, the entries that it reads, and its duration.
func Starts(b *testing.B, s *Server) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("holders=%d", n), func(b *testing.B) {
			const starts = 200
			space := NewSpace()
			o := lease.Options{Layout: hugeLayout(), Count: 2 * n, Logger: slog.New(slog.DiscardHandler), NewStore: true}
			putRecords(b, s.clients(b, 16, s.Addr, space), o, n)
			store := &counting{Store: s.client(b, s.Addr, space)}
			var requests, read, most int64
			var took []time.Duration
			for i := range starts {
				store.requests, store.read = 0, 0
				o.Owner = fmt.Sprint("start ", i)
				begun := time.Now()
				l := Must(lease.Acquire(b.Context(), store, &o))(b)
				took = append(took, time.Since(begun))
				requests, read, most = requests+store.requests, read+store.read, max(most, store.read)
				Must(snowflake.NewLeased(l, nil))(b)
				Do(b, l.Release(b.Context()))
			}
			slices.Sort(took)
			b.ReportMetric(float64(requests)/starts, "requests/start")
			b.ReportMetric(float64(read)/starts, "entries-read/start")
			b.ReportMetric(float64(most), "entries-read-at-most")
			b.ReportMetric(took[starts/2].Seconds()*1e3, "ms-median")
			b.ReportMetric(took[starts*99/100].Seconds()*1e3, "ms-p99")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// hugeLayout returns a layout with 262,144 worker IDs.
func hugeLayout() snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.WorkerBits, l.SequenceBits = 18, 4
	return l
}

// putRecords stores records of n holders, of every second worker ID.
func putRecords(b *testing.B, stores []lease.Store, o lease.Options, n int) {
	l := Must(lease.Acquire(b.Context(), stores[0], &o))(b)
	e := Must(stores[0].Get(b.Context(), fmt.Sprint("worker/", l.Worker())))(b)
	Do(b, l.Release(b.Context()))
	var template map[string]any
	Do(b, json.Unmarshal(e.Value, &template))
	// Far ahead, so that no worker ID is acquired when its holder counts as dead.
	template["bounds"] = []time.Time{time.Now().Add(time.Hour)}
	together := make(chan int)
	var writers sync.WaitGroup
	for _, store := range stores {
		writers.Go(func() {
			for i := range together {
				worker := 2*i + (1+l.Worker())%2
				record := maps.Clone(template)
				record["worker"], record["token"], record["owner"] = worker, fmt.Sprint("token ", i), fmt.Sprint("holder ", i)
				value, err1 := json.Marshal(record)
				_, err2 := store.Put(b.Context(), fmt.Sprint("mark/", worker), "", []byte("used"))
				_, err3 := store.Put(b.Context(), fmt.Sprint("worker/", worker), "", value)
				assert.NoError(b, errors.Join(err1, err2, err3))
			}
		})
	}
	for i := range n {
		together <- i
	}
	close(together)
	writers.Wait()
}

// counting is a store that counts requests, and the entries that they read.
type counting struct {
	lease.Store
	requests, read int64
}

func (c *counting) Now(ctx context.Context) (time.Time, error) {
	clock, ok := c.Store.(interface {
		Now(context.Context) (time.Time, error)
	})
	if !ok {
		return time.Time{}, errors.ErrUnsupported
	}
	c.requests++
	return clock.Now(ctx)
}

func (c *counting) Get(ctx context.Context, key string) (lease.Entry, error) {
	c.requests, c.read = c.requests+1, c.read+1
	return c.Store.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	all, err := c.Store.List(ctx, prefix)
	c.requests, c.read = c.requests+1, c.read+int64(len(all))
	return all, err
}

func (c *counting) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	c.requests++
	return c.Store.Put(ctx, key, old, value)
}

func (c *counting) Delete(ctx context.Context, key, old string) error {
	c.requests++
	return c.Store.Delete(ctx, key, old)
}
