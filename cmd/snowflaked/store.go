package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// askTime bounds the commands that read a store.
const askTime = 30 * time.Second

// sayAfter is the time after which a command says what it waits for.
const sayAfter = 2 * time.Second

// waitsFor makes standard error say that the command waits for what a URL names, and until when,
// unless end is called before.
func (p *program) waitsFor(url, until string) (end func() bool) {
	return time.AfterFunc(sayAfter, func() { p.Note("waiting for %s%s", shown(url), until) }).Stop
}

// within returns ctx with a limit for the requests to what a URL names. See waitsFor.
func (p *program) within(ctx context.Context, limit time.Duration, url string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	end := p.waitsFor(url, ", until "+time.Now().Add(limit).UTC().Format(time.RFC3339)+" at most")
	return ctx, func() {
		end()
		cancel()
	}
}

// asks defines --store and --json, and makes do the action of the command. Unless the command is
// init, the store's directory or file must exist: otherwise it would look like a store without
// worker IDs.
func (p *program) asks(c *cobra.Command, do func(ctx context.Context, store lease.Store, args []string) error) {
	var url string
	p.storeFlag(&url, c)
	p.jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		limit := askTime
		if f := c.Flags().Lookup("retire"); f != nil && f.Changed {
			limit += lease.MaxWindow
		}
		ctx, cancel := p.within(c.Context(), limit, url)
		defer cancel()
		if c.Name() != "init" {
			if err := mustExist(url); err != nil {
				return err
			}
		}
		store, closeStore, err := openURL(ctx, url)
		if err != nil {
			return err
		}
		defer closeStore()
		return do(ctx, store, args)
	}
}

const ifNew = "If it is new, run snowflaked init"

// withRemedy adds what to do with a new store to an error of a store that is new, or has lost
// entries.
func withRemedy(err error) error {
	if errors.Is(err, lease.ErrWiped) {
		return fmt.Errorf("%w. %s", err, ifNew)
	}
	return err
}

// mustExist returns an error if a URL names a directory or an SQLite file that does not exist.
func mustExist(url string) error {
	path, isDir := stores.Path(url)
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no store at %s; --store or SNOWFLAKED_STORE names the store", shown(url))
	case err == nil && isDir && !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	return err
}

// shown returns a URL without its password. If it names a directory or an SQLite file by a relative
// path, shown makes the path absolute.
func shown(url string) string {
	text := stores.Redact(url)
	path, _ := stores.Path(url)
	full, err := filepath.Abs(path)
	if path == "" || filepath.IsAbs(path) || err != nil {
		return text
	}
	scheme, rest, _ := strings.Cut(text, ":")
	return scheme + ":" + strings.Replace(rest, path, full, 1)
}

func (p *program) jsonFlag(c *cobra.Command) {
	c.Flags().BoolVar(&p.JSON, "json", false, "print JSON, for programs")
}

// storeFlag defines --store.
func (p *program) storeFlag(url *string, c *cobra.Command) {
	def := ""
	if dir := stateDir(p.lookup); dir != "" {
		def = "file:" + dir
	}
	c.Flags().StringVar(url, "store", def, "`URL` of the store of worker IDs: file:DIRECTORY, sqlite:FILE, postgres://HOST/DATABASE,\n"+
		"mysql://HOST/DATABASE, redis://HOST, etcd://HOST, zk://HOST, nats://HOST, kubernetes:NAMESPACE,\n"+
		"s3://BUCKET/PREFIX or dynamodb://TABLE/STORE: see snowflaked help urls. Give a URL with a password\n"+
		"in SNOWFLAKED_STORE: users of the host can see the flags")
}

// layoutFlag defines --layout.
func layoutFlag(c *cobra.Command, l *snowflake.Layout) {
	commands.LayoutFlag(c, l, "snowflaked help layouts")
}

// stateDir returns the default directory of the worker IDs, in the user's state directory.
func stateDir(lookup func(string) (string, bool)) string {
	if dir, _ := lookup("XDG_STATE_HOME"); filepath.IsAbs(dir) { // the standard ignores relative ones
		return filepath.Join(dir, "snowflake")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "snowflake")
}

func openURL(ctx context.Context, url string) (lease.Store, func() error, error) {
	if url == "" {
		return nil, nil, command.Refused("--store is empty, or there is no home directory: name a store")
	}
	store, closeStore, err := stores.Open(ctx, url)
	if u := (*stores.URLError)(nil); errors.As(err, &u) {
		return nil, nil, command.Refused("--store: %w", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--store: %w", err)
	}
	return store, closeStore, nil
}
