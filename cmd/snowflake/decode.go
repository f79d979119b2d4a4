package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

var commandDecode = command{
	name:     "decode",
	synopsis: []string{"ID...", "-"},
	summary:  "print the fields of IDs, or annotate the IDs in standard input",
	about: `Prints each ID followed by its fields, one a line. It prints nothing unless all
of them are IDs of the layout.

With - it copies standard input to standard output, byte for byte, and puts the
fields in parentheses behind every ID. It works under tail -f. An ID is

  - a run of decimal digits without a leading zero, at most 9223372036854775807,
  - with no ASCII letter before or behind it: 12ms and 7f3a12 are left alone;
    signs, punctuation, underscores, other bytes, and escapes for colours and
    new lines may touch it; but the fraction of a number is none: 0.30000000004,
  - that has no more bits than the layout,
  - and whose time is at least one day after the layout's epoch and at most one
    day from now.

The last rule leaves ports, status codes, and Unix seconds and milliseconds
alone. It goes by size only, so that other numbers may pass for IDs: Unix
microseconds for those of the first days of most layouts, nanoseconds for those
of the older ones, and with jssafe, whose IDs are short, milliseconds too.

` + aboutLayouts(),
	setup: setupDecode,
}

func setupDecode(fs *flag.FlagSet) action {
	layout := defineLayout(fs)
	return func(s streams, args []string) error {
		l, err := layout()
		switch {
		case err != nil:
			return err
		case len(args) == 0:
			return errors.New("decode takes IDs, or - to read standard input")
		case !slices.Contains(args, "-"):
			return decode(s, l, args)
		case len(args) > 1:
			return errors.New("decode takes - only by itself")
		}
		return failed(annotate(s.out, s.in, l, time.Now))
	}
}

// decode writes the IDs and their fields, once all of them are checked.
func decode(s streams, l snowflake.Layout, args []string) error {
	ids := make([]snowflake.ID, len(args))
	for i, arg := range args {
		id, err := parseID(l, arg)
		if err != nil {
			return err
		}
		ids[i] = id
	}
	for _, id := range ids {
		fmt.Fprintln(s.out, id, l.Decode(id))
	}
	return nil
}

// parseID reads an ID of the layout.
func parseID(l snowflake.Layout, s string) (snowflake.ID, error) {
	id, err := snowflake.ParseID(s)
	if err != nil {
		return 0, err
	}
	return id, l.Check(id)
}
