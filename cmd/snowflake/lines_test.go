package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

// readLines returns all lines of an input. Of long lines there is the length only.
func readLines(t *testing.T, in io.Reader) (all []string) {
	l := newLineReader(in)
	for l.next() {
		all = append(all, string(l.text))
		require.EqualValues(t, len(all), l.number)
		require.Equal(t, len(l.text) > longestLine, l.long)
	}
	require.NoError(t, l.err)
	return all
}

func TestLinesWithAnyEnds(t *testing.T) {
	for seed := range depth.Of[uint64](200, 2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for range r.IntN(20) {
			b.WriteString([]string{"\n", "\r", "\r\n", "1", "22", "\x00", ""}[r.IntN(7)])
		}
		want := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(b.String()), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		for name, in := range map[string]io.Reader{
			"whole":         strings.NewReader(b.String()),
			"one byte":      iotest.OneByteReader(strings.NewReader(b.String())),
			"data with EOF": iotest.DataErrReader(iotest.HalfReader(strings.NewReader(b.String()))),
		} {
			require.Equal(t, strings.Join(want, "|"), strings.Join(readLines(t, in), "|"), "%s: %q", name, b.String())
		}
	}
}

// A line of any length is one line, and its neighbours are read.
func TestLongLines(t *testing.T) {
	for _, n := range []int{longestLine, longestLine + 1, 16*longestLine - 1, 16 * longestLine, 40 * longestLine} {
		for _, end := range []string{"\n", "\r\n", ""} {
			l := newLineReader(strings.NewReader("1\n" + strings.Repeat("x", n) + end))
			require.True(t, l.next())
			assert.Equal(t, "1", string(l.text))
			require.True(t, l.next())
			assert.Equal(t, n > longestLine, l.long, n)
			_, err := l.id()
			require.Error(t, err)
			require.False(t, l.next(), "%d bytes and %q", n, end)
		}
	}
}

func TestUnfinishedLineIsDroppedIfInputFails(t *testing.T) {
	l := newLineReader(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(errors.New("bad sector"))))
	require.True(t, l.next())
	require.False(t, l.next(), "the number may have gone on")
	assert.EqualError(t, l.err, "bad sector")
}

func TestIDOf(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "999999999999999999": 999999999999999999, " \"7\", ": 7, "0": 0, "9223372036854775807": 1<<63 - 1} {
		id, err := idOf([]byte(text))
		require.NoError(t, err, text)
		assert.EqualValues(t, want, id)
	}
	for _, text := range []string{"01", "9223372036854775808", "-1", "1 2", "x", "1\x00", "٣", "1e5", "1:", "1/"} {
		_, err := idOf([]byte(text))
		assert.Error(t, err, text)
	}
}
