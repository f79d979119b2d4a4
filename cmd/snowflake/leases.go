package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/cli/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func workersCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "workers --store file:DIR",
		Short: "List who has leased which worker ID, and until when",
		Long: `Lists the worker IDs that were leased from a directory, one a line, below their
layout. The directory is the one that package lease's file store uses, or
"snowflake new --store". The columns are

` + holding.About,
		Args: cobra.NoArgs,
	}
	store := neededStore(c)
	retire := c.Flags().Int("retire", holding.Unretired, holding.AboutRetire)
	c.RunE = func(*cobra.Command, []string) error {
		return failed(holding.WriteHolders(c.Context(), s.out, lease.File(store.dir), *retire, s.json))
	}
	return c
}

func whoisCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "whois --store file:DIR ID...",
		Short: "Say who issued an ID, by the history of the leases",
		Long: `Says which process had an ID's worker ID at the ID's time, one ID a line. The
directory is the one that package lease's file store uses, or "snowflake new
--store"; its records also have the layout. Issuers older than the history are
forgotten.

` + holding.AboutIssuer,
		Args: cobra.MinimumNArgs(1),
	}
	store := neededStore(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		ids, err := holding.ParseIDs(args)
		if err != nil {
			return err
		}
		return failed(holding.WriteIssuers(c.Context(), s.out, lease.File(store.dir), s.json, ids))
	}
	return c
}

func watermarkCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "watermark --store file:DIR",
		Short: "Print an ID below every ID issued from now on",
		Long: `Prints the watermark of the leases in a directory: lease.Watermark. If a holder
keeps it back, standard error says which; the ID is still correct.`,
		Args: cobra.NoArgs,
	}
	store := neededStore(c)
	c.RunE = func(*cobra.Command, []string) error {
		return failed(holding.WriteWatermark(c.Context(), s.out, lease.File(store.dir), s.json))
	}
	return c
}

// directory is the value of --store: the URL of a directory, in snowflaked's form.
type directory struct{ text, dir string }

func (d *directory) String() string { return d.text }
func (d *directory) Type() string   { return "URL" }

func (d *directory) Set(text string) (err error) {
	d.text, d.dir = text, text
	if filepath.IsAbs(text) {
		return nil
	}
	scheme, path, ok := strings.Cut(text, ":")
	if !ok || scheme != "file" {
		return errors.New("want file:DIRECTORY, or a path that begins with /; for other stores use snowflaked")
	}
	if strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///") {
		return errors.New("leave out // before a directory")
	}
	if d.dir, err = url.PathUnescape(strings.TrimPrefix(path, "//")); err == nil && d.dir == "" {
		err = errors.New("the URL names no directory")
	}
	return err
}

// storeFlag defines --store.
func storeFlag(c *cobra.Command) *directory {
	d := new(directory)
	c.Flags().Var(d, "store",
		"the `URL` of the directory of the leases, as for snowflaked: file:DIRECTORY, or a path that begins with /")
	_ = c.MarkFlagDirname("store")
	return d
}

// neededStore defines a --store that the command requires, and whose directory must exist.
func neededStore(c *cobra.Command) *directory {
	d := storeFlag(c)
	_ = c.MarkFlagRequired("store")
	c.PreRunE = d.mustExist
	return d
}

// mustExist returns an error if the directory does not exist, which would otherwise look like a
// store without worker IDs.
func (d *directory) mustExist(*cobra.Command, []string) error {
	if d.dir == "" {
		return nil // if the flag is required, cobra's check comes later
	}
	info, err := os.Stat(d.dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", d.dir)
	}
	return failed(err)
}
