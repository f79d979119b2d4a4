package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
)

var commandDecode = command{
	name:     "decode",
	synopsis: []string{"ID...", "-lines <ids.txt", "- <app.log"},
	summary:  "print the fields of IDs, or annotate the IDs in standard input",
	about: `Prints each ID and its fields, one a line. If one of them is not an ID of the
layout, it prints nothing. With -lines it reads IDs from standard input, one a
line; if a line has no ID, it reports the line's number and goes on.

With - it copies standard input to standard output, byte for byte, also under
tail -f, and puts the fields in parentheses after every ID. A run of decimal
digits counts as an ID if it has no leading zero, touches no ASCII letter (as in
12ms or 7f3a12), is not the fraction of a number, and its time is at least a day
after the layout's epoch and at most a day from now. So some other large numbers
look like IDs: for example, Unix times in microseconds or nanoseconds. With
-json it writes the IDs only, one object a line.
`,
	setup: setupDecode,
}

// decoded is an ID and its fields as JSON.
type decoded struct {
	ID   snowflake.ID  `json:"id"`
	Time jsontime.Time `json:"time"` // instead of Parts.Time
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
			return fmt.Errorf("decode -lines takes no arguments, because it reads standard input: got %q", args[0])
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

// decode checks all IDs, and then writes them and their fields.
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
		return failed(fmt.Errorf("%s of %d had no ID of the layout", plural(bad, "line"), in.number))
	}
	return nil
}

// mostComplaints is how many bad lines are reported one by one.
const mostComplaints = 10

func (s streams) writeDecoded(l snowflake.Layout, id snowflake.ID) {
	if s.json {
		p := l.Decode(id)
		_ = s.writeJSON(decoded{id, jsontime.Time{Time: p.Time}, p}) // s.out remembers the error
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
