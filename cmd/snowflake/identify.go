package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/shown"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func identifyCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "identify ID... | -",
		Short: "Say which layout the IDs most likely have, and why",
		Long: `Ranks the known layouts by how likely each of them is the layout of the IDs. All
IDs should be of one layout; twenty IDs give a far better answer than one. With
- it reads IDs from standard input, one a line. They may be decimal, in base 32,
58 or 62, or URLs of Twitter, Discord, Instagram, Mastodon or Bluesky: then the
URL's host decides.

A layout is ruled out if the time of an ID is earlier than the first such ID can
have been, or more than a day ahead. A layout is likelier if it is common, times
are recent and close together, worker IDs are few, and sequences count up from
0. If only the epoch or a field's name tells layouts apart, it says so, with the
date in each. Percentages compare the layouts in the table only. Libraries that
have the same layout share a line.`,
		Args: someArgs("IDs, or - to read standard input"),
	}
	n := c.Flags().IntP("count", "n", 5, "how `many` layouts to show")
	c.RunE = func(_ *cobra.Command, args []string) error {
		switch {
		case *n < 1:
			return fmt.Errorf("-n %d is not 1 or more", *n)
		case slices.Contains(args, "-") && len(args) > 1:
			return errors.New("identify takes - only by itself")
		case args[0] == "-":
			var err error
			if args, err = readWords(s); err != nil {
				return failed(err)
			}
			if len(args) == 0 {
				return failed(errors.New("standard input has no IDs"))
			}
		}
		readings, err := texts.IDs(args)
		if err != nil {
			return err
		}
		all := shown.Identify(readings, time.Now())
		if s.json {
			return s.writeJSON(all)
		}
		first, rest, _ := strings.Cut(all.Text(*n), "\n")
		fmt.Fprintf(s.out, "%s\n%s", s.paint(bold, first), rest)
		return nil
	}
	return c
}

// mostWords is how many IDs identify looks at.
const mostWords = 10_000

// readWords reads standard input, one ID a line.
func readWords(s *streams) (words []string, err error) {
	full := errors.New("there are enough")
	err = eachLine(s.in, func(line int64, text string, err error) error {
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if word := strings.Trim(text, " \t\","); word != "" {
			words = append(words, word)
		}
		if len(words) == mostWords {
			return full
		}
		return nil
	})
	if errors.Is(err, full) {
		err = nil
	}
	return words, err
}

// hint says that IDs which l puts in the future are probably of another layout. It
// returns "" if there is no such ID.
func hint(l snowflake.Layout, ids []snowflake.ID, now time.Time) string {
	var late []snowflake.ID
	for _, id := range ids {
		if l.Decode(id).Time.After(now.Add(margin)) {
			late = append(late, id)
		}
	}
	if len(late) == 0 {
		return ""
	}
	matches := layouts.Identify(late, now)
	text := fmt.Sprintf("the time of %d lies in the future: it is probably of another layout", late[0])
	if matches[0].Share == 0 || matches[0].Layout == l {
		return text + ", which is not known"
	}
	var likely []string
	for _, m := range matches {
		if m.Share > matches[0].Share/5 {
			likely = append(likely, fmt.Sprintf("%s (%.0f%%)", m.Name, 100*m.Share))
		}
	}
	return fmt.Sprintf("%s, most likely %s; \"snowflake identify\" says more", text, strings.Join(likely, " or "))
}
