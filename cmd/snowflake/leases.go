package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func workerCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "worker --dir DIR",
		Short: "List who has leased which worker ID, and until when",
		Long: `Lists the worker IDs that were leased from a directory, one a line, below their
layout. The directory is the one that package lease's file store uses, or
"snowflake new --dir". The columns are

` + holding.About,
		Args: cobra.NoArgs,
	}
	dir := neededDir(c)
	c.RunE = func(*cobra.Command, []string) error {
		return failed(holding.WriteHolders(c.Context(), s.out, lease.File(*dir), s.json))
	}
	return c
}

func whoisCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "whois --dir DIR ID...",
		Short: "Say who issued an ID, by the history of the leases",
		Long: `Says which process had an ID's worker ID at the ID's time, one ID a line. The
directory is the one that package lease's file store uses, or "snowflake new
--dir"; its records also have the layout. An issuer that is older than the history is
forgotten.

From "from" to "to" nobody else could issue IDs with the worker ID. "from" may
lie up to a window before the process began, because its clock may be set back.`,
		Args: cobra.MinimumNArgs(1),
	}
	dir := neededDir(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		ids, err := holding.ParseIDs(args)
		if err != nil {
			return err
		}
		return failed(holding.WriteIssuers(c.Context(), s.out, lease.File(*dir), s.json, ids))
	}
	return c
}

func watermarkCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "watermark --dir DIR",
		Short: "Print an ID that no ID issued from now on is at or below",
		Long: `Prints the watermark of the leases in a directory: lease.Watermark. If a holder
keeps it back, standard error says which; the ID is right all the same.`,
		Args: cobra.NoArgs,
	}
	dir := neededDir(c)
	c.RunE = func(*cobra.Command, []string) error {
		return failed(holding.WriteWatermark(c.Context(), s.out, lease.File(*dir), s.json))
	}
	return c
}

// dirFlag defines --dir.
func dirFlag(c *cobra.Command) *string {
	dir := c.Flags().String("dir", "", "the `directory` of the leases")
	_ = c.MarkFlagDirname("dir")
	return dir
}

// neededDir defines a --dir that a command needs, and that must exist.
func neededDir(c *cobra.Command) *string {
	dir := dirFlag(c)
	_ = c.MarkFlagRequired("dir")
	c.PreRunE = func(*cobra.Command, []string) error { // else a wrong path looks like a store without worker IDs
		if *dir == "" {
			return nil // what checks the flags comes after this
		}
		info, err := os.Stat(*dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", *dir)
		}
		return failed(err)
	}
	return dir
}
