package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/layouts"
)

var commandIdentify = command{
	name:     "identify",
	synopsis: []string{"ID...", "-"},
	summary:  "say which layout the IDs most likely have, and why",
	about: `Ranks the known layouts by how likely each of them is the layout of the IDs. All
IDs should be of one layout; several IDs give a better answer than one. With -
it reads IDs from standard input, one a line. They may be decimal, or in base
32, 58 or 62.

A layout is ruled out if the time of an ID is earlier than the first such ID can
have been, or more than a day ahead. A layout is likelier if times are recent
and close together, worker IDs are few, and sequences count up from 0. If
layouts differ in the epoch only, the best of them gets at most 80% of their
share. Percentages compare the layouts in the table only. Layouts that differ in
nothing but the name share a line.
`,
	setup: setupIdentify,
}

// guess is a layout that IDs may be of.
type guess struct {
	Form string `json:"form"` // how the IDs are written
	layouts.Match
}

func setupIdentify(fs *flag.FlagSet) action {
	n := fs.Int("n", 5, "`how many` layouts to show")
	return func(s streams, args []string) error {
		switch {
		case len(args) == 0:
			return errors.New("identify takes IDs, or - to read standard input")
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
		readings, err := layouts.Read(args)
		if err != nil {
			return err
		}
		all := guesses(readings, time.Now())
		if s.json {
			return s.writeJSON(all)
		}
		writeGuesses(s, all, *n)
		return nil
	}
}

// mostWords is how many IDs identify looks at.
const mostWords = 10_000

// readWords reads standard input, one ID a line.
func readWords(s streams) (words []string, err error) {
	in := newLineReader(s.in)
	for len(words) < mostWords && in.next() {
		if in.long {
			return nil, fmt.Errorf("line %d is longer than %d bytes", in.number, longestLine)
		}
		if word := bytes.Trim(in.text, " \t\","); len(word) > 0 {
			words = append(words, string(word))
		}
	}
	return words, in.err
}

// guesses ranks the layouts of all readings. If there are several readings, they
// share the probability evenly.
func guesses(readings []layouts.Reading, now time.Time) []guess {
	var all []guess
	for _, r := range readings {
		for _, m := range layouts.Rank(r.IDs, now) {
			m.Share /= float64(len(readings))
			all = append(all, guess{r.Form, m})
		}
	}
	slices.SortStableFunc(all, func(a, b guess) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	return all
}

func writeGuesses(s streams, all []guess, n int) {
	shown := 0
	if sum(all) < 0.5 {
		fmt.Fprintln(s.out, "probably of no known layout: another layout, a random number, or no ID")
	}
	for _, g := range all {
		if g.Share < 0.001 || shown == n {
			break
		}
		shown++
		name := strings.Join(append([]string{g.Name}, g.Also...), ", ")
		if g.Form != "decimal" {
			name += " (" + g.Form + ")"
		}
		line := fmt.Sprintf("%3.0f%%  %s", 100*g.Share, name)
		if shown == 1 {
			line = s.paint(bold, line)
		}
		fmt.Fprintf(s.out, "%s: %s\n      %s\n", line, g.About, strings.Join(g.Why, "; "))
	}
	fmt.Fprint(s.out, s.paint(faint, ruledOut(all)))
}

func sum(all []guess) (share float64) {
	for _, g := range all {
		share += g.Share
	}
	return share
}

// ruledOut lists the layouts that are ruled out, by the kind of reason.
func ruledOut(all []guess) string {
	var early, late, other []string
	for _, g := range all {
		switch {
		case g.Not == "":
		case strings.Contains(g.Not, "before there were"):
			early = append(early, g.Name)
		case strings.Contains(g.Not, "future"):
			late = append(late, g.Name)
		default:
			other = append(other, g.Name)
		}
	}
	var b strings.Builder
	list := func(why string, names []string) {
		if len(names) > 0 {
			slices.Sort(names)
			fmt.Fprintf(&b, "not, because %s: %s\n", why, strings.Join(slices.Compact(names), " "))
		}
	}
	list("the time would be too early", early)
	list("the time would lie in the future", late)
	list("there are too many bits", other)
	return b.String()
}

// hint says that IDs which l puts in the future are probably of another layout. It
// returns "" if there is no such ID.
func hint(l snowflake.Layout, ids []snowflake.ID, now time.Time) string {
	var late []snowflake.ID
	for _, id := range ids {
		if l.Decode(id).Time.After(now.Add(layouts.Tolerance)) {
			late = append(late, id)
		}
	}
	if len(late) == 0 {
		return ""
	}
	best := layouts.Rank(late, now)[0]
	text := fmt.Sprintf("the time of %d lies in the future: it is probably of another layout", late[0])
	if best.Share == 0 || best.Layout == l {
		return text + ", which is not known"
	}
	return fmt.Sprintf("%s, most likely %s (%.0f%%); \"snowflake identify\" says more", text, best.Name, 100*best.Share)
}
