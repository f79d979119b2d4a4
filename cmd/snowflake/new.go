package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func newCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "new",
		Short: "Print new IDs",
		Long: `Prints new IDs, one a line. With --store it leases a worker ID from that
directory, which it makes if there is none, and releases the worker ID when it is
done or interrupted. No other invocation with the same directory issues the same
IDs, at the same time or later, whatever the clock does. The directory must be on
a local file system. "snowflake workers" lists its worker IDs.

HAZARD: if the directory is restored from a backup, IDs can repeat.

HAZARD: without --store, two invocations with the same --worker can issue the same
IDs: if they run at the same time, if they follow each other within a tick of
the layout, or if the clock is set back in between. Use --store for IDs you keep.`,
		Args: cobra.NoArgs,
	}
	n := c.Flags().IntP("count", "n", 1, "how `many` IDs")
	decode := c.Flags().Bool("decode", false, "print the fields after each ID")
	worker := c.Flags().Int("worker", 0, "the worker `ID`")
	store := storeFlag(c)
	c.MarkFlagsMutuallyExclusive("worker", "store")
	datacenter := c.Flags().Int("datacenter", 0, "the datacenter's `number`, if the layout has datacenters")
	layout := layoutFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *n < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *n)
		}
		opts := &snowflake.Options{Layout: *layout, Datacenter: *datacenter}
		g, err := snowflake.New(*worker, opts)
		if err != nil {
			return err
		}
		if c.Flags().Changed("store") {
			return issueLeased(s, store.dir, opts, *n, *decode)
		}
		return failed(issue(c.Context(), s, g, *n, *decode))
	}
	return c
}

// issueLeased writes n new IDs under a worker ID that it leases from dir. opts has
// been checked.
func issueLeased(s *streams, dir string, opts *snowflake.Options, n int, decode bool) (err error) {
	// If the reader of standard output goes away, the write fails, and the lease is released.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process

	window := max(3*time.Second, opts.Layout.Unit)
	log := slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// Whoever issues IDs by hand knows the directory, and does not wait for a window the first time.
	l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{Layout: opts.Layout, Window: window, Logger: log, NewStore: true})
	if errors.Is(err, lease.ErrLayout) || errors.Is(err, lease.ErrInvalidOptions) {
		return err
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), window)
		defer cancel()
		err = errors.Join(err, failed(l.Release(ctx)))
	}()
	g, err := snowflake.NewLeased(l, opts)
	if err != nil {
		return failed(err)
	}
	return interrupted(ctx, issue(ctx, s, g, n, decode))
}

// interrupted returns err as a failure. If a signal has ended ctx, the failure says so.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return failed(err)
}

// issue writes n new IDs. It takes at most the IDs of one tick at once, and writes them before it
// waits for the next tick.
func issue(ctx context.Context, s *streams, g *snowflake.Generator, n int, decode bool) error {
	const mostBits = 12
	batch := make([]snowflake.ID, 1<<min(g.Layout().SequenceBits, mostBits))
	for n > 0 {
		k, err := g.Fill(ctx, batch[:min(n, len(batch))])
		for _, id := range batch[:k] {
			if decode || s.json {
				s.writeDecoded(g.Layout(), id, decimal)
			} else {
				fmt.Fprintln(s.out, id)
			}
		}
		if err != nil {
			return err
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
