//go:build go1.25

package answers

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func identify(t *testing.T, words ...string) Guesses {
	readings, err := texts.IDs(words)
	require.NoError(t, err)
	g := Identify(readings, noon)
	sum := g.None + g.OtherEpoch
	for _, guess := range g.Guesses {
		sum += guess.Share
	}
	require.InDelta(t, 1, sum, 1e-6, "%v", words)
	return g
}

// The written form is evidence: public TIDs are likely TIDs, and in decimal the same numbers are
// likely nothing.
func TestIdentifyByForm(t *testing.T) {
	published, err := os.ReadFile("../../layouts/testdata/published.tsv")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(published)) {
		words := strings.Split(line, "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		g := identify(t, words[0])
		if words[1] != "atproto-tid" {
			continue
		}
		found++
		assert.Equal(t, "atproto-tid", g.Guesses[0].Name, words[0])
		assert.True(t, g.Guesses[0].Likely, words[0])
		assert.Contains(t, g.Text(1), "likely")
		number := g.Readings[0].IDs[0].String()
		for _, guess := range identify(t, number).Guesses {
			assert.False(t, guess.Likely, number)
		}
	}
	assert.Positive(t, found)
}

func TestIdentifyByURL(t *testing.T) {
	g := identify(t, "https://www.linkedin.com/feed/update/urn:li:activity:6857290678196686848/")
	assert.Equal(t, "unix", g.Guesses[0].Name)
	assert.Contains(t, g.Guesses[0].Also, "linkedin")
	assert.True(t, g.Guesses[0].Likely)
	assert.Empty(t, g.Notes)
	for _, words := range [][]string{
		{"https://example.com/6857290678196686848"},
		{"https://x.com/350646689377419265", "https://discord.com/350646689377419265"},
	} {
		g := identify(t, words...)
		require.Len(t, g.Notes, 1, words)
		assert.Contains(t, g.Notes[0], "is not known, so the URL does not decide")
		assert.False(t, g.Guesses[0].Likely, words)
	}
}

// With the time of an ID, the epoch is known as exactly as the time, and takes the roundest form.
func TestEpochs(t *testing.T) {
	const id = 135824181823537153
	for known, want := range map[string]string{
		"2024-01-10T19:16:48.438Z": "41/10/12@2023-01-01,1ms", "2024-01-10T19:16:48Z": "41/10/12@2023-01-01,1ms", "2024-01-10": "41/10/12@2023-01-01,1ms",
		"2025-01-10T19:16:48Z": "41/10/12@2024-01-02,1ms", "2025-01-10T19:16:48.450Z": "41/10/12@2024-01-02T00:00:00.012Z,1ms", "2025-01-10T20:17:48Z": "41/10/12@2024-01-02T01:01:00Z,1ms",
	} {
		at, span, err := texts.Span(known)
		require.NoError(t, err)
		var got []string
		for _, e := range Epochs(id, at, span) {
			got = append(got, e.Layout)
			l, err := texts.Layout(e.Layout)
			require.NoError(t, err)
			back := l.Decode(id).Time
			assert.False(t, back.Before(at.Add(-l.Unit-time.Millisecond)) || back.After(at.Add(span)), "%s: %v", e.Layout, back)
		}
		assert.Contains(t, got, want, known)
	}
	at, span, err := texts.Span("2024-01-10T19:16:48Z")
	require.NoError(t, err)
	assert.Equal(t, []string{"pgedge", "pgedge-node-last"}, Epochs(id, at, span)[0].Known)
	assert.Empty(t, Epochs(5, noon.AddDate(-70, 0, 0), time.Second))
}
