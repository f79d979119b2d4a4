package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/seed-5394e6b1/snowflake/internal/cli/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const aboutWorkers = `snowflaked workers lists the worker IDs of a store, one a line, below their layout.

usage:
  snowflaked workers [--store URL] [--json] [--retire N]

` + holding.About

const aboutWhois = `snowflaked whois says which process had an ID's worker ID at the ID's time, one ID a line. The layout
is that of the store's records. The exit status is 1 if no process can have issued one of the IDs, or if its
issuer was forgotten.

` + holding.AboutIssuer + `

usage:
  snowflaked whois [--store URL] [--json] ID...
`

const aboutWatermark = `snowflaked watermark prints an ID below every ID issued under the store from now on. If a holder keeps
it back, the exit status is 1, and standard error says which; the ID is still correct.

usage:
  snowflaked watermark [--store URL] [--json]
`

// askTime bounds the commands that read a store.
const askTime = 30 * time.Second

// ask runs a command that reads a store: it parses the flags, fs and those of all such commands,
// opens the store, and calls do.
func ask(ctx context.Context, fs *pflag.FlagSet, about string, args []string, getenv func(string) string, stdout io.Writer,
	do func(ctx context.Context, store lease.Store, asJSON bool, args []string) error) error {
	url := storeFlag(fs, getenv)
	asJSON := fs.Bool("json", false, "print JSON, for programs")
	if err := parse(fs, about, args, getenv, stdout); err != nil {
		return err
	}
	limit := askTime
	if f := fs.Lookup("retire"); f != nil && f.Value.String() != f.DefValue {
		limit += lease.MaxWindow
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	store, closeStore, err := openURL(ctx, *url)
	if err != nil {
		return err
	}
	defer closeStore()
	return do(ctx, store, *asJSON, fs.Args())
}

func newFlags() *pflag.FlagSet { return pflag.NewFlagSet("snowflaked", pflag.ContinueOnError) }

// noArgs returns an error if there are arguments besides flags.
func noArgs(name string, args []string) error {
	if len(args) > 0 {
		return refused("%s takes no arguments besides flags, got %q", name, args[0])
	}
	return nil
}

func workers(ctx context.Context, args []string, getenv func(string) string, stdout, _ io.Writer) error {
	fs := newFlags()
	retire := fs.Int("retire", holding.Unretired, holding.AboutRetire)
	return ask(ctx, fs, aboutWorkers, args, getenv, stdout, func(ctx context.Context, store lease.Store, asJSON bool, args []string) error {
		if err := noArgs("workers", args); err != nil {
			return err
		}
		return holding.WriteHolders(ctx, stdout, store, *retire, asJSON)
	})
}

func watermark(ctx context.Context, args []string, getenv func(string) string, stdout, _ io.Writer) error {
	return ask(ctx, newFlags(), aboutWatermark, args, getenv, stdout, func(ctx context.Context, store lease.Store, asJSON bool, args []string) error {
		if err := noArgs("watermark", args); err != nil {
			return err
		}
		return holding.WriteWatermark(ctx, stdout, store, asJSON)
	})
}

func whois(ctx context.Context, args []string, getenv func(string) string, stdout, _ io.Writer) error {
	return ask(ctx, newFlags(), aboutWhois, args, getenv, stdout, func(ctx context.Context, store lease.Store, asJSON bool, args []string) error {
		if len(args) == 0 {
			return refused("which ID? Write: snowflaked whois [--store URL] ID...")
		}
		ids, err := holding.ParseIDs(args)
		if err != nil {
			return usageError{err}
		}
		return holding.WriteIssuers(ctx, stdout, store, asJSON, ids)
	})
}
