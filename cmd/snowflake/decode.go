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
	synopsis: []string{"ID...", "-lines <ids.txt", "- <app.log"},
	summary:  "print the fields of IDs, or annotate the IDs in standard input",
	about: `Prints each ID and its fields, one a line, and nothing unless all are IDs of the
layout. With -lines it reads IDs from standard input, one a line, and goes on
after a line that is none, which it reports by its number.

With - it copies standard input to standard output, byte for byte, also under
tail -f, and puts the fields in parentheses after every ID: a run of decimal
digits without a leading zero, that no ASCII letter touches (12ms, 7f3a12), that
is not the fraction of a number, and whose time is at least a day after the
layout's epoch and at most a day from now. So other large numbers pass for IDs:
Unix microseconds for those of the first days of most layouts, and nanoseconds.
With -json it writes the IDs only, one object a line.
`,
	setup: setupDecode,
}

// decoded is an ID and its fields as JSON.
type decoded struct {
	ID snowflake.ID `json:"id"`
	snowflake.Parts
}

func setupDecode(fs *flag.FlagSet) action {
	lines := fs.Bool("lines", false, "read standard input, one ID a line")
	layout := defineLayout(fs)
	return func(s streams, args []string) error {
		l, err := layout()
		switch {
		case err != nil:
			return err
		case *lines && (len(args) == 0 || len(args) == 1 && args[0] == "-"):
			return decodeLines(s, l)
		case *lines:
			return fmt.Errorf("decode -lines reads standard input, and takes no %q", args[0])
		case len(args) == 0:
			return errors.New("decode takes IDs, or - to read standard input")
		case !slices.Contains(args, "-"):
			return decode(s, l, args)
		case len(args) > 1:
			return errors.New("decode takes - only by itself")
		}
		return failed(annotate(s.out, s.in, l, s.json, time.Now))
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
		s.writeDecoded(l, id)
	}
	s.note(hint(l, ids, time.Now()))
	return nil
}

// decodeLines writes the IDs of standard input and their fields.
func decodeLines(s streams, l snowflake.Layout) error {
	bad := 0
	var last snowflake.ID
	in := newLineReader(s.in)
	for in.next() {
		id, err := in.id()
		if err == nil {
			err = l.Check(id)
		}
		if errors.Is(err, errBlank) {
			continue
		}
		if err != nil {
			if bad++; bad <= mostComplaints {
				fmt.Fprintf(s.err, "snowflake: line %d: %s\n", in.number, plainError(err))
			}
			continue
		}
		last = max(last, id)
		s.writeDecoded(l, id)
	}
	s.note(hint(l, []snowflake.ID{last}, time.Now()))
	switch {
	case in.err != nil:
		return failed(in.err)
	case bad > 0:
		return failed(fmt.Errorf("%s of %d were not IDs of the layout", plural(bad, "line"), in.number))
	}
	return nil
}

// mostComplaints is how many bad lines are reported one by one.
const mostComplaints = 10

func (s streams) writeDecoded(l snowflake.Layout, id snowflake.ID) {
	if s.json {
		_ = s.writeJSON(decoded{id, l.Decode(id)}) // s.out remembers it
		return
	}
	fmt.Fprintln(s.out, id, l.Decode(id))
}

// note writes one line for people to standard error, unless it is empty.
func (s streams) note(text string) {
	if text != "" {
		fmt.Fprintf(s.err, "snowflake: %s\n", text)
	}
}

// parseID reads an ID of the layout.
func parseID(l snowflake.Layout, s string) (snowflake.ID, error) {
	id, err := snowflake.ParseID(s)
	if err != nil {
		return 0, err
	}
	return id, l.Check(id)
}
