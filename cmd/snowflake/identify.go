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
- it reads IDs from standard input, with spaces or new lines between them, and
looks at the first 10,000. They may be decimal, in base 32, 58 or 62, or URLs and
URNs. If the site is known, such as Twitter, Discord, Instagram, LinkedIn, TikTok,
Weibo, Mastodon or Bluesky, the URL decides.

A layout is ruled out if the time of an ID is earlier than the first such ID can
have been, or more than a day ahead. A layout is likelier if it is common, the
last time is of today, times are close together, worker IDs are few, and
sequences count up from 0. Most layouts have twins, from which only the epoch or
the fields below the time tell them, and many systems have an epoch of their own:
so an ID alone is seldom likely of one layout. A layout is called likely if 95 of
100 such answers are right. Libraries that have the same layout share a line.

If you know the time of an ID, such as the created_at of its row, --time computes
the epoch for each division of the bits, and names the layouts that have it. A
time without a fraction stands for a second, and a date for a day.

A note says if the IDs look rounded, or like a mixture of layouts.`,
		Args: cobra.MinimumNArgs(1),
	}
	n := c.Flags().IntP("count", "n", 5, "how `many` layouts to show")
	known := c.Flags().String("time", "", "the `time` of the ID, to compute the epoch")
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
		if *known != "" {
			return writeEpochs(s, readings, *known)
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

// writeEpochs writes with which epochs an ID has a time.
func writeEpochs(s *streams, readings []texts.Reading, known string) error {
	t, span, err := texts.Span(known)
	if err != nil {
		return err
	}
	var epochs []shown.Epoch
	for _, r := range readings {
		if len(r.IDs) > 1 {
			return errors.New("--time is the time of a single ID")
		}
		epochs = append(epochs, shown.Epochs(r.IDs[0], t, span)...)
	}
	if s.json {
		return s.writeJSON(map[string][]shown.Epoch{"epochs": epochs})
	}
	for _, e := range epochs {
		fmt.Fprintln(s.out, strings.TrimSpace(fmt.Sprintf("%-45s  %s", e.Spec, strings.Join(e.Known, ", "))))
	}
	if len(epochs) == 0 {
		s.note("with each of the known divisions the epoch would be before 1970")
	}
	return nil
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
