package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func decodeCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "decode ID... | FILE... | - <app.log",
		Short: command.Short("decode"),
		Args:  namesInput,
	}
	layout := layoutFlag(c)
	var key keyFile
	c.Flags().StringVar(&key.path, "key-file", "",
		"a `FILE` with the key of opaque texts: 32 bytes, or in hexadecimal or base 64, and below it older keys")
	c.Flags().StringVar(&key.purpose, "purpose", "", "the `purpose` of opaque texts; by default their prefix")
	c.Flags().BoolVar(&key.ints, "opaque-int", false, "decode numbers of package opaque, with --key-file and --purpose")
	_ = c.MarkFlagFilename("key-file")
	c.RunE = func(_ *cobra.Command, args []string) error {
		switch inputs, err := command.AreInputs(args); {
		case err != nil:
			return err
		case key.ints && (key.path == "" || key.purpose == ""):
			return errors.New("--opaque-int needs --key-file and --purpose")
		case key.ints && inputs:
			return errors.New("--opaque-int decodes arguments, not files: nothing tells which numbers of a file are opaque")
		case inputs:
			return annotateAll(s, *layout, args)
		}
		return decode(s, *layout, key, args)
	}
	return c
}

// annotateAll annotates the inputs that args name.
func annotateAll(s *command.Streams, l snowflake.Layout, args []string) error {
	found := false
	s.Watched = s.Watched && !s.Shows
	err := s.EachInput(args, func(_ string, in io.Reader) error {
		text, err := input.Plain(in)
		if err != nil {
			return err
		}
		one := *s
		one.In = text
		has, err := annotate(&one, l)
		found = found || has
		return err
	})
	if err == nil && !found {
		s.Note("no ID of the layout was found: --layout names another layout")
	}
	return err
}

// decode checks all IDs, and then writes them and their fields.
func decode(s *command.Streams, l snowflake.Layout, key keyFile, args []string) error {
	ids := make([]snowflake.ID, len(args))
	forms := make([]string, len(args))
	var others []string
	for i, arg := range args {
		all, err := key.read(arg)
		if err != nil {
			return err
		}
		var also []texts.Reading
		if ids[i], forms[i], also, err = likeliest(l, all, s.Now()); err != nil {
			return err
		}
		for _, o := range also {
			others = append(others, fmt.Sprintf("%s is %d if it is read as %s", arg, o.IDs[0], o.Form))
		}
	}
	for i, id := range ids {
		s.WriteDecoded(l, id, forms[i])
	}
	for _, other := range others {
		s.Note("%s", other)
	}
	if last := slices.Max(ids); l.Decode(last).Time.After(s.Now().Add(margin)) {
		why := "it probably has another layout: try snowflake identify"
		if key.ints {
			why = "the number probably has another key or purpose"
		}
		s.Note("the time of %d lies in the future, so %s", last, why)
	}
	return nil
}

// likeliest returns the ID and form of the first reading that is an ID of the layout with a time in
// the past or, if there is none, of the first reading. others are the other readings with times in
// the past.
func likeliest(l snowflake.Layout, all []texts.Reading, now time.Time) (id snowflake.ID, form string, others []texts.Reading, err error) {
	past := slices.DeleteFunc(slices.Clone(all), func(r texts.Reading) bool {
		return l.Check(r.IDs[0]) != nil || l.Decode(r.IDs[0]).Time.After(now.Add(margin))
	})
	if len(past) == 0 {
		past = all[:1]
	}
	return past[0].IDs[0], past[0].Form, past[1:], l.Check(past[0].IDs[0])
}
