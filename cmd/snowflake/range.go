package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func rangeCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "range FROM TO",
		Short: command.Short("range"),
		Args:  both("range", "FROM and TO"),
	}
	layout := layoutFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		from, err := texts.Time(args[0])
		if err != nil {
			return err
		}
		to, err := texts.Time(args[1])
		if err != nil {
			return err
		}
		lo, hi, err := layout.Range(from, to)
		if err != nil {
			return err
		}
		if s.JSON {
			return s.WriteJSON(map[string]snowflake.ID{"lo": lo, "hi": hi})
		}
		fmt.Fprintf(s.Out, "%d\n%d\n", lo, hi)
		return nil
	}
	return c
}
