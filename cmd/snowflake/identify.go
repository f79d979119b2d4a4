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
		Args:  namesInput,
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
