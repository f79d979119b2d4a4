package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func watermarkCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "watermark --dir DIR",
		Short: "Print an ID that no ID issued from now on is at or below",
		Long: `Prints the watermark of the leases in a directory: lease.Watermark. If a holder
keeps it back, the exit status is 1, and standard error says which; the ID is
right all the same.`,
		Args: noArgs,
	}
	dir := neededDir(c)
	c.RunE = func(*cobra.Command, []string) error {
		return failed(holding.WriteWatermark(context.Background(), s.out, lease.File(*dir), s.json))
	}
	return c
}
