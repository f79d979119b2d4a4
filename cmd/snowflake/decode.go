package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/shown"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func decodeCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "decode ID... | --lines <ids.txt | - <app.log",
		Short: "Print the fields of IDs, or annotate the IDs in a log",
		Long: `Prints each ID and its fields, one a line. If one of them is not an ID of the
layout, it prints nothing. With --lines it reads IDs from standard input, one a
line; if a line has no ID, it reports the line's number and goes on.

With - it copies standard input to standard output, byte for byte, also under
tail -f, and puts the fields in parentheses after every ID. A run of decimal
digits counts as an ID if it has no leading zero, touches no ASCII letter (as in
12ms or 7f3a12), is not the fraction of a number, and its time is at least a day
after the layout's epoch and at most a day from now. So some other large numbers
look like IDs: for example, Unix times in microseconds or nanoseconds. With
--json it writes the IDs only, one object a line. If there was no ID, standard
error says so at the end.`,
	}
	lines := c.Flags().Bool("lines", false, "read standard input, one ID a line")
	layout := layoutFlags(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		l, err := layout()
		switch {
		case err != nil:
			return err
		case *lines && (len(args) == 0 || len(args) == 1 && args[0] == "-"):
			return decodeLines(s, l)
		case *lines:
			return fmt.Errorf("decode --lines takes no arguments, because it reads standard input: got %q", args[0])
		case len(args) == 0:
			return errors.New("decode takes IDs, or - to read standard input")
		case !slices.Contains(args, "-"):
			return decode(s, l, args)
		case len(args) > 1:
			return errors.New("decode takes - only by itself")
		}
		found, err := annotate(s.out, s.in, l, s.json, time.Now)
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
		id, err := parseID(l, arg)
		if info, e := os.Stat(arg); err != nil && e == nil && info.Mode().IsRegular() {
			return fmt.Errorf("%q is a file: snowflake decode - <%s reads it", arg, plain(arg))
		}
		if err != nil {
			return err
		}
		ids[i] = id
	}
	for _, id := range ids {
		s.writeDecoded(l, id)
	}
	s.note(hint(l, ids, time.Now()))
	return nil
}

// decodeLines writes the IDs of standard input and their fields.
func decodeLines(s *streams, l snowflake.Layout) error {
	var bad, lines int64
	var last snowflake.ID
	err := eachLine(s.in, func(line int64, text string, err error) error {
		lines = line
		var id snowflake.ID
		if err == nil {
			id, err = idOf(text)
		}
		if err == nil {
			err = l.Check(id)
		}
		switch {
		case errors.Is(err, errBlank):
		case err == nil:
			last = max(last, id)
			s.writeDecoded(l, id)
		default:
			if bad++; bad <= mostComplaints {
				fmt.Fprintf(s.err, "snowflake: line %d: %s\n", line, plainError(err))
			}
		}
		return nil
	})
	s.note(hint(l, []snowflake.ID{last}, time.Now()))
	if err == nil && bad > 0 {
		err = fmt.Errorf("%s of %d had no ID of the layout", plural(int(bad), "line"), lines)
	}
	return failed(err)
}

// mostComplaints is how many bad lines are reported one by one.
const mostComplaints = 10

func (s *streams) writeDecoded(l snowflake.Layout, id snowflake.ID) {
	if s.json {
		_ = s.writeJSON(shown.Decode(id, "decimal", l)) // s.out remembers the error
		return
	}
	fmt.Fprintln(s.out, id, l.Decode(id))
}

// note writes one line for people to standard error, unless it is empty.
func (s *streams) note(text string) {
	if text != "" {
		fmt.Fprintf(s.err, "snowflake: %s\n", text)
	}
}

// parseID reads an ID of the layout.
func parseID(l snowflake.Layout, s string) (snowflake.ID, error) {
	id, err := snowflake.ParseID(s)
	if err != nil {
		if readings, e := texts.IDs([]string{s}); e == nil && len(s) > 9 { // a shorter text is a word
			err = fmt.Errorf("%w; it may be %s: snowflake identify %s says more", err, readings[0].Form, s)
		}
		return 0, err
	}
	return id, l.Check(id)
}
