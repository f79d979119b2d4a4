package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const aboutInit = `snowflaked init opens a store that has never been used, so that the first start does not wait for three
minutes. Run it once, like a migration. A start that is waiting already goes on within two seconds. In any other
store it changes nothing, and says what the store has; the exit status is 0, unless the layout differs.

HAZARD: a store that was in use and has lost all of its entries looks new, and IDs may repeat until a process that
is alive has put its entries back. So do not run it at each start or deployment.

usage:
  snowflaked init [--store URL] [--layout NAME|SPEC]
`

// initialize is the command init.
func initialize(ctx context.Context, args []string, getenv func(string) string, stdout, _ io.Writer) error {
	fs := newFlags()
	url, layout := storeFlag(fs, getenv), layoutFlag(fs)
	if err := parse(fs, aboutInit, args, getenv, stdout); err != nil {
		return err
	}
	if err := noArgs("init", fs.Args()); err != nil {
		return err
	}
	l, err := texts.Layout(*layout)
	if err != nil {
		return refused("--layout: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	store, closeStore, err := openURL(ctx, *url)
	if err != nil {
		return err
	}
	defer closeStore()
	said := "the store was initialized, and no start waits"
	if err = lease.Init(ctx, store, l); errors.Is(err, lease.ErrInitialized) && !errors.Is(err, lease.ErrLayout) {
		said, err = "nothing was changed: "+strings.TrimPrefix(err.Error(), "lease: "), nil
	}
	if err == nil {
		_, err = fmt.Fprintf(stdout, "%s: %s, %v\n", stores.Redact(*url), said, l)
	}
	return err
}
