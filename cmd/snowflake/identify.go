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
	summary:  "say which layout IDs are most likely of, and why",
	about: `Ranks the known layouts by how likely each is to have issued the IDs, which are
taken to be of one layout: several say more than one does. With - it reads them
from standard input, one a line. IDs may be decimal, or in base 32, 58 or 62.

A layout is out of the question if an ID's time lies before there were such IDs,
or more than a day ahead. Else the likeliest one is that under which times are
recent and near each other, worker IDs few, and sequences count up from 0. The
percentages are of the layouts in the table only; layouts that differ in nothing
but their names share a line.
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

// guesses ranks the layouts of all readings. If texts have several readings,
// all of them count.
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
		fmt.Fprintln(s.out, "probably of no known layout: another one, a random number, or no ID")
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

// ruledOut lists the layouts that are out of the question, by the reason's kind.
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

// hint returns what is to be said of IDs that l puts in the future: that they are
// probably of another layout. It returns nothing if there is no such ID.
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
		return text + ", but none that is known"
	}
	return fmt.Sprintf("%s, most likely %s (%.0f%%); \"snowflake identify\" says more", text, best.Name, 100*best.Share)
}
