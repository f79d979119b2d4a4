// Package shown has what the command and the service show alike, as JSON.
package shown

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

// Decoded is an ID taken apart.
type Decoded struct {
	ID     snowflake.ID `json:"id"`
	Form   string       `json:"form"`   // how the ID was written
	Layout string       `json:"layout"` // as Layout.String writes it
	Parts  Parts        `json:"parts"`
	Base32 string       `json:"base32"`
	Base58 string       `json:"base58"`
	Base62 string       `json:"base62"`
}

// Parts has the JSON of snowflake.Parts, also if the year has more than four digits.
type Parts struct {
	Time jsontime.Time `json:"time"` // instead of Parts.Time
	snowflake.Parts
}

// Decode takes apart an ID that was written in a form.
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
	Spec   string   `json:"spec"`   // as --layout reads it
	snowflake.Layout
	Expires jsontime.Time `json:"expires"`
}

// Describe describes a layout.
func Describe(k layouts.Known) Layout {
	return Layout{k.Name, k.Also, k.About, k.Source, k.Layout.String(), texts.Spell(k.Layout), k.Layout, jsontime.Time{Time: k.Layout.Expires()}}
}

// Guess is a layout that IDs may have. If it is ruled out, Not says why, and Share, First, Last, Twins and
// Why are empty.
type Guess struct {
	Form   string        `json:"form"` // how the IDs are written
	Name   string        `json:"name"`
	Also   []string      `json:"also,omitempty"`
	About  string        `json:"about"`
	Layout string        `json:"layout"`
	Share  float64       `json:"share"`
	First  jsontime.Time `json:"first,omitzero"` // the time of the first ID
	Last   jsontime.Time `json:"last,omitzero"`
	Twins  []string      `json:"twins,omitempty"` // the layouts that only the epoch, or a field's name, tells from it
	Why    []string      `json:"why,omitempty"`
	Not    string        `json:"not,omitempty"`
}

// Guesses are all known layouts, the most likely layout first, and the IDs in each form that fits.
type Guesses struct {
	Guesses  []Guess         `json:"guesses"`
	Readings []texts.Reading `json:"readings"`
}

// Identify guesses the layouts of IDs that texts are in one or more forms. The forms share the
// probability evenly. If the IDs come from URLs of a known site, there is no doubt.
func Identify(readings []texts.Reading, now time.Time) Guesses {
	var all []Guess
	for _, r := range readings {
		matches := layouts.Identify(r.IDs, now)
		if k, ok := layouts.ByHost(r.Host); ok {
			matches = certain(matches, k.Name, r.Host)
		}
		for _, m := range matches {
			all = append(all, Guess{
				Form: r.Form, Name: m.Name, Also: m.Also, About: m.About, Layout: m.Layout.String(),
				Share: m.Share / float64(len(readings)), First: jsontime.Time{Time: m.First}, Last: jsontime.Time{Time: m.Last},
				Twins: m.Twins, Why: m.Why, Not: m.Not,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b Guess) int { return cmp.Compare(b.Share, a.Share) })
	return Guesses{all, readings}
}

// certain leaves the layout of a host alone, unless the IDs rule it out.
func certain(matches []layouts.Match, name, host string) []layouts.Match {
	at := slices.IndexFunc(matches, func(m layouts.Match) bool { return m.Name == name && m.Not == "" })
	if at < 0 {
		return matches
	}
	for i := range matches {
		if m := &matches[i]; i == at {
			m.Share, m.Twins = 1, nil
			m.Why = slices.DeleteFunc(m.Why, func(why string) bool { return strings.HasPrefix(why, "only the ") })
			m.Why = append(m.Why, "the URL is of "+host)
		} else if m.Not == "" {
			*m = layouts.Match{Known: m.Known, Not: "the URL is of " + host}
		}
	}
	return matches
}

// Text writes at most n guesses for people to read, and which layouts are ruled out.
func (g Guesses) Text(n int) string {
	var b strings.Builder
	known := 0.0
	for _, g := range g.Guesses {
		known += g.Share
	}
	if known < 0.5 {
		b.WriteString("probably of no known layout: another layout, a random number, or no ID\n")
	}
	if one := g.oneOf(); len(one) > 1 {
		fmt.Fprintf(&b, "one of %s: only the epoch or a field's name tells them apart\n", strings.Join(one, ", "))
	}
	for _, g := range g.Guesses[:min(n, len(g.Guesses))] {
		if g.Share < 0.005 {
			break
		}
		name := strings.Join(append([]string{g.Name}, g.Also...), ", ")
		if g.Form != "decimal" {
			name += " (" + g.Form + ")"
		}
		fmt.Fprintf(&b, "%3.0f%%  %s: %s\n      %s\n", 100*g.Share, name, g.About, strings.Join(g.Why, "; "))
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
