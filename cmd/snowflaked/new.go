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
		Args:  commands.NoArgs,
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
		o.Layout = opts.Layout
		got, err := p.acquire(c.Context(), url, o)
		if err != nil {
			return interrupted(c.Context(), err)
		}
		defer got.closeStore()
		return p.issueLeased(c.Context(), got.lease, &opts, n)
	}
	return c
}

// acquire opens a store and acquires a worker ID.
func (p *program) acquire(ctx context.Context, url string, o *lease.Options) (got acquired, err error) {
	defer p.waitsFor(url, "")()
	got.store, got.closeStore, err = openURL(ctx, url)
	if err != nil {
		return got, err
	}
	_, isDir := stores.Path(url)
	o.NewStore = o.NewStore || isDir
	o.Logger = slog.New(slog.NewTextHandler(p.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	got.lease, err = lease.Acquire(ctx, got.store, o)
	if err != nil {
		_ = got.closeStore()
	}
	return got, err
}

// issueLeased writes new IDs under a lease, and releases it.
func (p *program) issueLeased(ctx context.Context, l *lease.Lease, opts *snowflake.Options, n command.NewFlags) (err error) {
	// If the reader of standard output goes away, the write fails, and the lease is released.
	signal.Ignore(syscall.SIGPIPE)
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
