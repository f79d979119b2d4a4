package main

import (
	"flag"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

var commandRange = command{
	name:     "range",
	synopsis: []string{"FROM TO"},
	summary:  "print the range of the IDs of a span of time",
	about: `Prints two IDs, lo and hi, one a line. To find the rows whose IDs were issued
from FROM up to, but not including, TO, ask for

  WHERE id >= lo AND id < hi

FROM and TO are RFC 3339 times, or like 2026-01-31T15:04:05,
"2026-01-31 15:04:05" or 2026-01-31 in UTC.
`,
	setup: setupRange,
}

func setupRange(fs *flag.FlagSet) action {
	layout := defineLayout(fs)
	return func(s streams, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("range takes two times, got %d arguments", len(args))
		}
		l, err := layout()
		if err != nil {
			return err
		}
		from, err := layouts.ParseTime(args[0])
		if err != nil {
			return err
		}
		to, err := layouts.ParseTime(args[1])
		if err != nil {
			return err
		}
		lo, hi, err := l.Range(from, to)
		if err != nil {
			return err
		}
		if s.json {
			return s.writeJSON(map[string]snowflake.ID{"lo": lo, "hi": hi})
		}
		fmt.Fprintf(s.out, "%d\n%d\n", lo, hi)
		return nil
	}
}
