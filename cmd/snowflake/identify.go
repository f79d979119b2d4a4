package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/answers"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func identifyCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "identify ID... | FILE... | -",
		Short: command.Short("identify"),
		Long: `Ranks the known layouts by the likelihood that the IDs have them. All IDs should
have one layout; twenty IDs give a far better answer than one. From files or - it
reads the first 10,000 IDs, in each form that audit reads. They may be decimal, in
base 32, 58 or 62, or URLs and URNs. If the site is known, such
as Twitter, Discord, Instagram, LinkedIn, TikTok, Weibo, Mastodon or Bluesky, the
URL decides.

A layout is ruled out if the time of an ID is more than a day ahead, or before the
first ID of that layout. A layout is likelier if it is common, the last time is
today, the times are close together, the worker IDs are few, and the sequences
count up from 0. Many layouts differ only in the epoch or in the fields below the
time, and many systems have an epoch of their own, so a single ID seldom decides. A
layout is called likely if 95 of 100 such answers are right. Libraries that have
the same layout share a line.

If you know the time of an ID, such as the created_at of its row, --time computes
the epoch for each division of the bits, and names the layouts that have it. A
time without a fraction stands for a second, one without seconds for a minute, and
a date for a day.

A note says if the IDs look rounded, or like a mixture of layouts.`,
		Args: namesInput,
	}
	var options input.Options
	options.Flags(c.Flags())
	n := c.Flags().IntP("count", "n", 5, "show at most `N` layouts")
	known := c.Flags().String("time", "", "the `time` of the ID, to compute the epoch")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := command.AtLeast("count", *n, 1); err != nil {
			return err
		}
		inputs, err := command.AreInputs(args)
		if err == nil && inputs {
			args, err = s.Sample(args, options, mostWords)
		}
		if err != nil {
			return err
		}
		readings, err := texts.IDs(args)
		if err != nil {
			return err
		}
		if passed := readings[0].Skipped; len(passed) > 0 {
			s.Note("skipped %d of %d texts; the first is %.40q: %s",
				len(passed), len(args), passed[0].Text, passed[0].Why)
		}
		if *known != "" {
			return writeEpochs(s, readings, *known)
		}
		all := answers.Identify(readings, s.Now())
		if s.JSON {
			return s.WriteJSON(all)
		}
		s.Out.WriteString(all.Text(*n))
		return nil
	}
	return c
}

// writeEpochs writes the epochs with which the ID has the known time.
func writeEpochs(s *command.Streams, readings []texts.Reading, known string) error {
	t, span, err := texts.Span(known)
	if err != nil {
		return err
	}
	epochs := []answers.Epoch{} // in JSON [] if there are none
	for _, r := range readings {
		if len(r.IDs) > 1 {
			return errors.New("--time is the time of a single ID")
		}
		epochs = append(epochs, answers.Epochs(r.IDs[0], t, span)...)
	}
	if s.JSON {
		return s.WriteJSON(map[string][]answers.Epoch{"epochs": epochs})
	}
	for _, e := range epochs {
		fmt.Fprintln(s.Out, strings.TrimSpace(fmt.Sprintf("%-45s  %s", e.Layout, strings.Join(e.Known, ", "))))
	}
	if len(epochs) == 0 {
		s.Note("with each of the known divisions the epoch would be before 1970")
	}
	return nil
}

// mostWords bounds the IDs that identify reads from files.
const mostWords = 10_000
