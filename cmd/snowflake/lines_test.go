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

// readLines returns all lines of an input, and why it ended. Of a line that is too long
// there is the error.
func readLines(in io.Reader) (all []string, err error) {
	err = eachLine(in, func(line int64, text string, err error) error {
		if all = append(all, text); err != nil {
			all[line-1] = err.Error()
		}
		return nil
	})
	return all, err
}

func TestLines(t *testing.T) {
	for seed := range depth.Of[uint64](200, 2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for range r.IntN(20) {
			b.WriteString([]string{"\n", "\r\n", "1", "22", "\x00", "a\rb", ""}[r.IntN(7)])
		}
		want := strings.Split(strings.ReplaceAll(b.String(), "\r\n", "\n"), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		for name, in := range map[string]io.Reader{
			"whole":         strings.NewReader(b.String()),
			"one byte":      iotest.OneByteReader(strings.NewReader(b.String())),
			"data with EOF": iotest.DataErrReader(iotest.HalfReader(strings.NewReader(b.String()))),
		} {
			got, err := readLines(in)
			require.NoError(t, err)
			require.Equal(t, strings.Join(want, "|"), strings.Join(got, "|"), "%s: %q", name, b.String())
		}
	}
}

// A line of any length is one line, and its neighbours are read.
func TestLongLines(t *testing.T) {
	for _, n := range []int{longestLine, longestLine + 1, longestLine + 2, longestLine + 3, 40 * longestLine} {
		for _, end := range []string{"\n", "\r\n", ""} {
			x := strings.Repeat("x", n)
			got, err := readLines(iotest.HalfReader(strings.NewReader("1\n" + x + end)))
			require.NoError(t, err)
			want := "snowflake: invalid ID: the line is longer than 65536 bytes"
			if n == longestLine {
				want = x
			}
			require.Equal(t, []string{"1", want}, got, "%d bytes and %q", n, end)
			got, err = readLines(strings.NewReader(x + "\n7\n8"))
			require.NoError(t, err)
			require.Equal(t, []string{"7", "8"}, got[1:])
		}
	}
}

func TestUnfinishedLineIsDroppedIfInputFails(t *testing.T) {
	got, err := readLines(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(errors.New("bad sector"))))
	assert.Equal(t, []string{"1"}, got, "the number may have gone on")
	assert.EqualError(t, err, "bad sector")
}

func TestIDOf(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "999999999999999999": 999999999999999999, " \"7\", ": 7, "0": 0, "9223372036854775807": 1<<63 - 1} {
		id, err := idOf(text)
		require.NoError(t, err, text)
		assert.EqualValues(t, want, id)
	}
	for _, text := range []string{"01", "9223372036854775808", "-1", "1 2", "x", "1\x00", "٣", "1e5", "1:", "1/"} {
		_, err := idOf(text)
		assert.Error(t, err, text)
	}
}
