// Package answers defines the JSON that the commands and the server share.
package answers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// Decoded is an ID and its fields.
type Decoded struct {
	ID     snowflake.ID `json:"id"`
	Form   string       `json:"form"`   // the form in which the ID was written
	Layout string       `json:"layout"` // as Layout.String writes it
	Parts  Parts        `json:"parts"`
	Base32 string       `json:"base32"`
	Base58 string       `json:"base58"`
	Base62 string       `json:"base62"`
}

// Parts has the JSON of snowflake.Parts, and allows years of more than four digits.
type Parts struct {
	Time jsontime.Time `json:"time"` // instead of Parts.Time
	snowflake.Parts
}

// Decode decodes an ID that was written in a form.
func Decode(id snowflake.ID, form string, l snowflake.Layout) Decoded {
	p := l.Decode(id)
	return Decoded{id, form, l.String(), Parts{jsontime.Time{Time: p.Time}, p}, id.Base32(), id.Base58(), id.Base62()}
}

// Layout describes a layout. A layout that is not in the table has no name, source and about.
type Layout struct {
	Name   string   `json:"name,omitempty"`
	Also   []string `json:"also,omitempty"`
	About  string   `json:"about,omitempty"`
	Source string   `json:"source,omitempty"`
	Text   string   `json:"layout"` // as Layout.String writes it
	snowflake.Layout
	Expires jsontime.Time `json:"expires"`
}

// Describe describes a layout.
func Describe(k layouts.Known) Layout {
	return Layout{k.Name, k.Also, k.About, k.Source, k.Layout.String(), k.Layout, jsontime.Time{Time: k.Layout.Expires()}}
}

// Guess is a layout that IDs may have. If it is ruled out, Not has the reason, and Share, Likely,
// First, Last, Twins and Why are empty.
type Guess struct {
	Form   string        `json:"form"` // the form in which the IDs are written
	Name   string        `json:"name"`
	Also   []string      `json:"also,omitempty"`
	About  string        `json:"about"`
	Layout string        `json:"layout"`
	Share  float64       `json:"share"`
	Likely bool          `json:"likely"`         // whether its times are probably right
	First  jsontime.Time `json:"first,omitzero"` // the time of the first ID
	Last   jsontime.Time `json:"last,omitzero"`
	Why    []string      `json:"why,omitempty"`
	Not    string        `json:"not,omitempty"`

	// Twins are the layouts that differ only in the epoch, or in a field below the time.
	Twins []string `json:"twins,omitempty"`
}

// Guesses are all known layouts, the most likely layout first, and the IDs in each form that fits.
// The shares of the guesses, OtherEpoch and None add up to 1.
type Guesses struct {
	Guesses []Guess `json:"guesses"`

	// OtherEpoch is the probability that the IDs have the fields of a known layout, but another
	// epoch. None is the probability that they have none of the layouts.
	OtherEpoch float64 `json:"otherEpoch"`
	None       float64 `json:"none"`

	Notes    []string        `json:"notes,omitempty"`
	Readings []texts.Reading `json:"readings"`
}

// written is the frequency of a layout's own form of IDs, as a multiple of that of decimal.
const written = 1000

// Identify guesses the layouts of IDs that were read in one or more forms. If the IDs come from
// URLs of a known site, the site decides.
func Identify(readings []texts.Reading, now time.Time) Guesses {
	g := Guesses{Guesses: []Guess{}, Readings: readings}
	var sure []float64 // of each guess, layouts.Match.Sure
	total := 0.0
	for _, r := range readings {
		found := layouts.Identify(r.IDs, now)
		g.Notes = append(g.Notes, notes(r, found)...)
		if k, ok := layouts.ByHost(r.Host); ok {
			certain(&found, k.Name, r.Host)
		}
		// The probability of no layout does not depend on the form, so it makes forms comparable.
		measure := 1 / max(found.None, 1e-300)
		g.None += found.None * measure
		g.OtherEpoch += found.OtherEpoch * measure
		total += (found.None + found.OtherEpoch) * measure
		for _, m := range found.Matches {
			more := measure
			if m.Form == r.Form {
				more *= written
			}
			total += m.Share * more
			sure = append(sure, m.Sure*more)
			layout := m.Layout.String()
			if m.NodeFirst {
				layout += " with the worker above the time"
			}
			g.Guesses = append(g.Guesses, Guess{
				Form: r.Form, Name: m.Name, Also: m.Also, About: m.About, Layout: layout, Share: m.Share * more,
				First: jsontime.Time{Time: m.First}, Last: jsontime.Time{Time: m.Last}, Twins: m.Twins, Why: m.Why, Not: m.Not,
			})
		}
	}
	g.None /= total
	g.OtherEpoch /= total
	for i := range g.Guesses {
		g.Guesses[i].Share /= total
		g.Guesses[i].Likely = layouts.Match{Sure: sure[i] / total}.Likely()
	}
	slices.SortStableFunc(g.Guesses, func(a, b Guess) int { return cmp.Compare(b.Share, a.Share) })
	return g
}

// notes returns remarks on the IDs, such as that they were rounded.
func notes(r texts.Reading, found layouts.Ranking) (notes []string) {
	if _, ok := layouts.ByHost(r.Host); r.Form == "URL" && !ok {
		site := "the site " + r.Host
		if r.Host == "" {
			site = "a mixture of sites"
		}
		notes = append(notes, site+" is not known, so the URL does not decide")
	}
	rounding, rounded := texts.Rounded(slices.Values(r.IDs))
	if rounded = rounded && r.Form == "decimal"; rounded {
		notes = append(notes, rounding.String())
	}
	if len(found.Mixture) > 0 && !(rounded && rounding.Sure) {
		var parts []string
		for _, p := range found.Mixture {
			name := "of no known layout"
			if p.IsKnown() {
				name = "perhaps " + p.Best.Name
			}
			parts = append(parts, fmt.Sprintf("%d to %d (%s)", p.First, p.Last, name))
		}
		notes = append(notes, "this is probably a mixture; identify its parts one by one: "+strings.Join(parts, ", "))
	}
	return notes
}

// certain rules out all layouts except that of a host, unless the IDs rule that one out.
func certain(found *layouts.Ranking, name, host string) {
	at := slices.IndexFunc(found.Matches, func(m layouts.Match) bool { return m.Name == name && m.Not == "" })
	if at < 0 {
		return
	}
	found.OtherEpoch, found.None = 0, 0
	for i := range found.Matches {
		if m := &found.Matches[i]; i == at {
			m.Share, m.Sure, m.Twins = 1, 1, nil
			m.Why = slices.DeleteFunc(m.Why, ofTwins)
			m.Why = append(m.Why, "the URL is of "+host)
		} else if m.Not == "" {
			*m = layouts.Match{Known: m.Known, Not: "the URL is of " + host}
		}
	}
}

// Epoch is a division of the bits, and the epoch with which an ID has its known time.
type Epoch struct {
	Layout string        `json:"layout"`
	Epoch  jsontime.Time `json:"epoch"`

	// Known are the layouts with this epoch and number of time bits. The fields below the time may
	// differ.
	Known []string `json:"known,omitempty"`
}

// Epochs returns, for each division of the known layouts, the epoch with which an ID's time is one
// of the span that begins at t. Of several epochs it takes the roundest. Epochs of known layouts
// come first; there are none before 1970.
func Epochs(id snowflake.ID, t time.Time, span time.Duration) (epochs []Epoch) {
	type division struct {
		unit time.Duration
		bits uint8 // of the time
	}
	at := map[division]int{}
	for _, k := range layouts.All() {
		l := k.Layout
		d := division{l.Unit, l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits}
		last := t.Add(span - l.Decode(id).Time.Sub(l.Epoch.Time()))
		first := last.Add(-span - l.Unit)
		if l.Check(id) != nil || last.Before(snowflake.UnixEpoch.Time()) {
			continue
		}
		i, ok := at[d]
		if !ok {
			l.Epoch = snowflake.EpochAt(roundest(first, last, last.Add(-span)))
			i = len(epochs)
			at[d] = i
			epochs = append(epochs, Epoch{Layout: l.String(), Epoch: jsontime.Time{Time: l.Epoch.Time()}})
		}
		if e := k.Layout.Epoch.Time(); !e.Before(first) && !e.After(last) {
			known := &epochs[i]
			if known.Known == nil {
				known.Layout, known.Epoch.Time = k.Layout.String(), e
			}
			known.Known = append(known.Known, k.Name)
		}
	}
	slices.SortStableFunc(epochs, func(a, b Epoch) int { return cmp.Compare(min(1, len(b.Known)), min(1, len(a.Known))) })
	return epochs
}

// roundest returns a whole day of a span, or else a whole hour, minute or second, or else a time.
func roundest(first, last, otherwise time.Time) time.Time {
	for _, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if t := last.Truncate(unit); !t.Before(first) {
			return t
		}
	}
	return otherwise.Truncate(time.Millisecond)
}

// ofTwins reports whether evidence only names twins.
func ofTwins(why string) bool { return strings.HasPrefix(why, "only the ") }

// Text returns at most n guesses as text for people, and the layouts that are ruled out. For a
// single ID it uses words, because percentages would look measured.
func (g Guesses) Text(n int) string {
	var b strings.Builder
	for _, note := range g.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if g.None > 0.5 {
		b.WriteString("probably of no known layout: another layout, a random number, or no ID\n")
	}
	one := g.oneOf()
	if len(one) > 1 {
		fmt.Fprintf(&b, "one of %s: only the epoch or the fields below the time tell them apart\n", strings.Join(one, ", "))
	}
	alone := !slices.ContainsFunc(g.Readings, func(r texts.Reading) bool { return len(r.IDs) > 1 })
	say := func(share float64, likely bool, text string) {
		word := fmt.Sprintf("%3.0f%%", 100*share)
		switch {
		case likely:
			word = "likely"
		case alone:
			word = "possible"
		}
		fmt.Fprintf(&b, "%-8s  %s\n", word, text)
	}
	const least = 0.01
	for _, g := range g.Guesses[:min(n, len(g.Guesses))] {
		if g.Share < least {
			break
		}
		name := strings.Join(append([]string{g.Name}, g.Also...), ", ")
		if g.Form != "decimal" {
			name += " (" + g.Form + ")"
		}
		why := g.Why
		if len(one) > 1 { // the twins are named already
			why = slices.DeleteFunc(slices.Clone(why), ofTwins)
		}
		say(g.Share, g.Likely, fmt.Sprintf("%s: %s\n          %s", name, g.About, strings.Join(why, "; ")))
	}
	if g.OtherEpoch >= least {
		say(g.OtherEpoch, false, "one of the known shapes with another epoch: with --time, an ID's time, identify computes the epoch")
	}
	if g.None >= least {
		say(g.None, false, "none of these")
	}
	for _, reason := range []struct{ not, why string }{
		{"before there were", "the time would be too early"},
		{"in the future", "the time would lie in the future"},
		{"more bits", "there are too many bits"},
	} {
		var names []string
		for _, g := range g.Guesses {
			if strings.Contains(g.Not, reason.not) {
				names = append(names, g.Name)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			fmt.Fprintf(&b, "not, because %s: %s\n", reason.why, strings.Join(slices.Compact(names), " "))
		}
	}
	return b.String()
}

// oneOf names the first guess and its twins with their dates, if the twins are about as likely.
func (g Guesses) oneOf() (names []string) {
	first := g.Guesses[0]
	for i, o := range g.Guesses {
		if o.Form == first.Form && o.Share > first.Share/10 && (i == 0 || slices.Contains(first.Twins, o.Name)) {
			names = append(names, fmt.Sprintf("%s (%s)", o.Name, o.Last.UTC().Format(time.DateOnly)))
		}
	}
	return names
}
