package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/shown"
)

func decodeCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "decode ID... | - <app.log",
		Short: "Print the fields of IDs, or annotate the IDs in a log",
		Long: `Prints each ID and its fields, one a line. If one of them is not an ID of the
layout, it prints nothing.

With - it copies standard input to standard output, byte for byte, also under
tail -f, and puts the fields in parentheses after every ID. A run of decimal
digits counts as an ID if it has no leading zero, touches no ASCII letter (as in
12ms or 7f3a12), is not the fraction of a number, and its time is at least a day
after the layout's epoch and at most a day from now. So some other large numbers
look like IDs: for example, Unix times in microseconds or nanoseconds. With
--json it writes the IDs only, one object a line. If there was no ID, standard
error says so at the end.`,
		Args: cobra.MinimumNArgs(1),
	}
	layout := layoutFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if !slices.Contains(args, "-") {
			return decode(s, *layout, args)
		}
		if len(args) > 1 {
			return errors.New("decode takes - only by itself")
		}
		found, err := annotate(s, *layout)
		if err == nil && !found {
			s.note("no ID of the layout was found; snowflake identify says more")
		}
		return failed(err)
	}
	return c
}

// decode checks all IDs, and then writes them and their fields.
func decode(s *streams, l snowflake.Layout, args []string) error {
	ids := make([]snowflake.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = parseID(l, arg); err != nil {
			return err
		}
	}
	for _, id := range ids {
		s.writeDecoded(l, id)
	}
	if last := slices.Max(ids); l.Decode(last).Time.After(s.now().Add(margin)) {
		s.note(fmt.Sprintf("the time of %d lies in the future: it is probably of another layout; snowflake identify says more", last))
	}
	return nil
}

// parseID reads an ID of the layout.
func parseID(l snowflake.Layout, s string) (snowflake.ID, error) {
	id, err := snowflake.ParseID(s)
	if err != nil {
		return 0, fmt.Errorf("%w; snowflake identify reads other forms", err)
	}
	return id, l.Check(id)
}

func (s *streams) writeDecoded(l snowflake.Layout, id snowflake.ID) {
	if s.json {
		_ = s.writeJSON(shown.Decode(id, "decimal", l)) // s.out remembers the error
		return
	}
	fmt.Fprintln(s.out, id, l.Decode(id))
}
