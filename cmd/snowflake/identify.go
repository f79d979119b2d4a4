package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/shown"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func identifyCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "identify ID... | -",
		Short: "Say which layout the IDs most likely have, and why",
		Long: `Ranks the known layouts by how likely each of them is the layout of the IDs. All
IDs should be of one layout; twenty IDs give a far better answer than one. With
- it reads IDs from standard input, with spaces or new lines between them. They
may be decimal, in base 32, 58 or 62, or URLs of Twitter, Discord, Instagram,
Mastodon or Bluesky: then the URL's host decides.

A layout is ruled out if the time of an ID is earlier than the first such ID can
have been, or more than a day ahead. A layout is likelier if it is common, times
are recent and close together, worker IDs are few, and sequences count up from
0. If only the epoch or a field's name tells layouts apart, it says so, with the
date in each. Percentages compare the layouts in the table only. Libraries that
have the same layout share a line.`,
		Args: cobra.MinimumNArgs(1),
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
		}
		readings, err := texts.IDs(args)
		if err != nil {
			return err
		}
		all := shown.Identify(readings, s.now())
		if s.json {
			return s.writeJSON(all)
		}
		s.out.WriteString(all.Text(*n))
		return nil
	}
	return c
}

// mostWords is how many IDs identify looks at.
const mostWords = 10_000

// readWords reads IDs from standard input, without the quotes and commas around them.
func readWords(s *streams) (words []string, err error) {
	in := bufio.NewScanner(s.in)
	in.Split(bufio.ScanWords)
	for len(words) < mostWords && in.Scan() {
		if word := strings.Trim(in.Text(), `",`); word != "" {
			words = append(words, word)
		}
	}
	if len(words) == 0 && in.Err() == nil {
		return nil, errors.New("standard input has no IDs")
	}
	return words, in.Err()
}
