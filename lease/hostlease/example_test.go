package hostlease_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/hostlease"
)

// A host with a keeper and a process. In a fleet, the store is on the network.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store := lease.File(filepath.Join(dir, "fleet"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)

	layout := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: 10 * time.Millisecond, TimeBits: 38, WorkerBits: 22, SequenceBits: 3}
	fleet := hostlease.Fleet{Layout: layout, HostBits: 17} // 131,072 blocks of 32 worker IDs
	go fleet.Keep(ctx, store, filepath.Join(dir, "host"), &lease.Options{Window: lease.MaxWindow, Logger: quiet})

	l, err := fleet.Acquire(ctx, filepath.Join(dir, "host"), &lease.Options{Logger: quiet})
	if err != nil {
		panic(err)
	}
	defer l.Release(context.Background())
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		panic(err)
	}
	id, err := gen.NextID()
	fmt.Println(gen.Decode(id).Worker == l.Worker(), err)
	// Output: true <nil>
}
