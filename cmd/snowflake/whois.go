package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func whoisCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "whois --dir DIR ID...",
		Short: "Say who issued an ID, by the history of the leases",
		Long: `Says which process had an ID's worker ID at the ID's time, one ID a line. The
directory is the one that package lease's file store uses, or "snowflake new
--dir"; its records also have the layout. The exit status is 1 if nobody can have
issued one of the IDs, or if its issuer is older than the history.

From "from" to "to" nobody else could issue IDs with the worker ID. "from" may
lie up to a window before the process began, because its clock may be set back.`,
		Args: someArgs("IDs"),
	}
	dir := neededDir(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		ids := make([]snowflake.ID, len(args))
		for i, arg := range args {
			var err error
			if ids[i], err = snowflake.ParseID(arg); err != nil {
				return err
			}
		}
		return whois(s, lease.File(*dir), ids)
	}
	return c
}

// dirFlag defines --dir.
func dirFlag(c *cobra.Command) *string {
	dir := c.Flags().String("dir", "", "the `directory` of the leases")
	_ = c.MarkFlagDirname("dir")
	return dir
}

// neededDir defines a --dir that a command needs. The directory must exist.
func neededDir(c *cobra.Command) *string {
	dir := dirFlag(c)
	_ = c.MarkFlagRequired("dir")
	c.PreRunE = func(*cobra.Command, []string) error { return checkDir("dir", *dir) }
	return dir
}

// checkDir refuses the value of a flag if it is not a directory.
func checkDir(flag, dir string) error {
	if dir == "" {
		return fmt.Errorf("--%s is missing: it names a directory", flag)
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return fmt.Errorf("--%s %q: %w", flag, dir, err)
	}
	return nil
}

func whois(s *streams, store lease.Store, ids []snowflake.ID) error {
	var said error
	for _, id := range ids {
		h, unknown, err := holding.Whois(context.Background(), store, id)
		if err != nil {
			return failed(err)
		}
		if unknown != nil {
			said = errSaid
		}
		switch {
		case s.json && unknown != nil:
			err = s.writeJSON(holding.Issuer{ID: id, Error: plainError(unknown)})
		case s.json:
			err = s.writeJSON(holding.Issuer{ID: id, Holder: &h})
		case unknown != nil:
			_, err = fmt.Fprintf(s.out, "%v %s\n", id, s.paint(red, plainError(unknown)))
		default:
			_, err = fmt.Fprint(s.out, holding.Line(id, h))
		}
		if err != nil {
			return failed(err)
		}
	}
	return failed(said)
}
