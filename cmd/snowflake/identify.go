package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/shown"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func identifyCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "identify ID... | FILE... | -",
		Short: "Say which layout the IDs most likely have, and why",
		Long: `Ranks the known layouts by how likely each of them is the layout of the IDs. All
IDs should be of one layout; twenty IDs give a far better answer than one. Of
files or - it reads the first 10,000 IDs, in each form that audit reads. They
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
	options := inputFlags(c)
	n := c.Flags().IntP("count", "n", 5, "how `many` layouts to show")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *n < 1 {
			return fmt.Errorf("-n %d is not 1 or more", *n)
		}
		inputs, err := areInputs(args)
		if err == nil && inputs {
			args, err = s.sample(args, *options, mostWords)
		}
		if err != nil {
			return err
		}
		readings, err := texts.IDs(args)
		if err != nil {
			return err
		}
		if passed := readings[0].Skipped; len(passed) > 0 {
			s.note(fmt.Sprintf("passed over %d of %d texts; the first is %.40q: %s", len(passed), len(args), passed[0].Text, passed[0].Why))
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
