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
		Long: `Prints each ID and its fields, one a line. If one of them is not an ID of the
layout, it prints nothing. It reads each form that the library writes: decimal,
base 32, 58 and 62, with or without leading zeros, hexadecimal (0x..., or 14 to 16
digits), typed (order_038ANTKF00000), and with --key-file opaque texts. It also
reads the forms of other programs, such as Long("5"), 5n, 1,234,567 and Seata's
IP:port:ID. If a text is an ID in several forms, it takes the first whose time is
in the past, and standard error has the others. With --opaque-int, the arguments
are numbers of package opaque. Such a number is an ID under every key, so it takes
the first key of the file under which the ID's time is in the past.

With files or - it copies them to standard output, byte for byte, also from
tail -f, and puts the fields in parentheses after every ID. The input may be
compressed by gzip. A run of decimal digits counts as an ID if it has no leading
zero, touches no ASCII letter (as in 12ms or 7f3a12), is not the fraction of a
number, and has a time from a day after the layout's epoch to a day from now. Some
other large numbers also look like IDs, such as Unix times in microseconds or
nanoseconds. Typed IDs, 0x and hexadecimal digits, 13 characters in base 32, and
words of 10 or 11 characters in base 58 or 62 with small letters, capitals and
digits count if their times are in the same range. With --json it writes only the
IDs, one object a line. If there was no ID, standard error says so at the end.`,
		Args: namesInput,
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
