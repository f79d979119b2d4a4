package main

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func (p *program) newCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "new",
		Short: "Print new IDs, under a lease",
		Long: `Prints new IDs, one a line. It leases a worker ID from the store, and releases it
at the end, or when it is interrupted. No other process with the same store issues
the same IDs, at the same time or later, whatever the clock does. If the store is a
directory, it is created if it does not exist, and must be on a local file system.

HAZARD: if the directory is restored from a backup, IDs can repeat.`,
		Args: commands.NoArgs,
	}
	var n command.NewFlags
	n.Define(c.Flags())
	o := new(lease.Options)
	leaseFlags(c.Flags(), o, ".\nWith a directory it never waits, because a person who issues IDs knows the directory")
	var opts snowflake.Options
	layoutFlag(c, &opts.Layout)
	var url string
	p.storeFlag(&url, c)
	p.jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		opts.Datacenter = n.Datacenter
		trial := opts
		trial.Clock = snowflake.SystemClock() // so that the process keeps no generator
		if _, err := snowflake.New(0, &trial); err != nil {
			return command.Refused("%w", err)
		}
		if err := n.Check(); err != nil {
			return err
		}
		store, closeStore, err := openURL(c.Context(), url)
		if err != nil {
			return err
		}
		defer closeStore()
		_, isDir := stores.Path(url)
		o.NewStore = o.NewStore || isDir
		return p.issueLeased(c.Context(), store, o, &opts, n)
	}
	return c
}

// issueLeased writes new IDs under a worker ID that it leases from a store.
func (p *program) issueLeased(
	ctx context.Context, store lease.Store, o *lease.Options, opts *snowflake.Options, n command.NewFlags,
) (err error) {
	// If the reader of standard output goes away, the write fails, and the lease is released.
	signal.Ignore(syscall.SIGPIPE)
	o.Layout, o.Logger = opts.Layout, slog.New(slog.NewTextHandler(p.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := lease.Acquire(ctx, store, o)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		err = errors.Join(err, l.Release(ctx))
	}()
	g, err := snowflake.NewLeased(l, opts)
	if err != nil {
		return err
	}
	return interrupted(ctx, p.Issue(ctx, g, n))
}

// interrupted returns err or, if a signal has ended ctx, an error that says so.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
