package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// annotated returns what annotate makes of in.
func annotated(t *testing.T, in io.Reader, l snowflake.Layout) string {
	t.Helper()
	var out strings.Builder
	_, err := annotate(onStreams(in, &out), l)
	require.NoError(t, err)
	return out.String()
}

func onStreams(in io.Reader, out io.Writer) *command.Streams {
	return command.New("snowflake", in, out, io.Discard, atNoon)
}

func TestAnnotate(t *testing.T) {
	const (
		id = "1541815603606036480"
		is = id + " (time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0)"
	)
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"alone", id, is},
		{"line", "order " + id + " shipped\n", "order " + is + " shipped\n"},
		{"CRLF", id + "\r\n" + id + "\r\n", is + "\r\n" + is + "\r\n"},
		{"no final newline", "a\nb " + id, "a\nb " + is},
		{"JSON", `{"id":"` + id + `","n":` + id + `}`, `{"id":"` + is + `","n":` + is + `}`},
		{"punctuation", "/" + id + "/-" + id + "=" + id + "_" + id + ".", "/" + is + "/-" + is + "=" + is + "_" + is + "."},
		{"bytes that are not ASCII", "é" + id + "é\xff" + id + "\x00", "é" + is + "é\xff" + is + "\x00"},
		{"letter before", "x" + id + " Z" + id, "x" + id + " Z" + id},
		{"letter after the ID", id + "x " + id + "Z " + id + "a1", id + "x " + id + "Z " + id + "a1"},
		{"ID after a word that is not an ID", "12ms " + id, "12ms " + is},
		{"letters and ID in one word", id + "x" + id, id + "x" + id},
		{"leading zero", "0" + id, "0" + id},
		{"too long", id + "0 " + id + id, id + "0 " + id + id},
		{"over the largest ID", "9223372036854775808 9999999999999999999", "9223372036854775808 9999999999999999999"},
		{"a fraction", "0.1541815603606036480 12." + id + " v1." + id, "0.1541815603606036480 12." + id + " v1." + is},
		{"a line's end", id + ".\n" + id + ".", is + ".\n" + is + "."},
		{"colours", "\x1b[36mid=\x1b[0m" + id + "\x1b[1;31m" + id, "\x1b[36mid=\x1b[0m" + is + "\x1b[1;31m" + is},
		{"escapes", `a\n` + id + `\t` + id + `\x` + id, `a\n` + is + `\t` + is + `\x` + id},
		{"everyday numbers", "0 1 80 404 65535 1780315200 1780315200000", "0 1 80 404 65535 1780315200 1780315200000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, annotated(t, strings.NewReader(test.in), layouts.Twitter()))
		})
	}
}

// IDs in all forms that the library writes are found, and other words are not.
func TestAnnotateOtherForms(t *testing.T) {
	const id, is = snowflake.ID(54901761638412289), "54901761638412289 time=2026-06-01T12:00:00.000Z worker=3 sequence=1 form="
	for text, form := range map[string]string{
		id.Base32(): "base 32", id.Base58(): "base 58", id.Base62(): "base 62", "0xc30cdc80003001": "hexadecimal",
		"order_" + id.Base32(): "typed", "line_item2_" + id.Base32(): "typed", id.String() + "n": "decimal", id.String() + "L": "decimal",
	} {
		if form = "(" + is + fmt.Sprintf("%q", form) + ")"; form == "("+is+`"decimal")` {
			form = "(time=2026-06-01T12:00:00.000Z worker=3 sequence=1)"
		}
		for _, around := range []string{"%s", "got %s, and\n", `{"id":"%s"}`, "/orders/%s?x=1", "id=%s;", `a\n%s\t`, "\x1b[36m%s\x1b[0m", "é%sé"} {
			want := strings.ReplaceAll(around, "%s", text+" "+form)
			assert.Equal(t, want, annotated(t, strings.NewReader(strings.ReplaceAll(around, "%s", text)), snowflake.DefaultLayout()))
		}
	}
	for _, text := range []string{
		"connection", "information", "INFORMATION", "Information", "connection1", "CONNECTION12345", "deadbeef12", "c30cdc80003001",
		"x" + id.Base62(), id.Base58() + "x", id.Base32() + "0", "0x7f0012345678", "sha256", "x86_64", "i18n", "12ms",
		"7ZZZZZZZZZZZZ", "user_7ZZZZZZZZZZZZ", "2026-06-01T12:00:00Z", "6jBeLMBn6gylueyOncP6gT", "550e8400-e29b-41d4-a716-446655440000",
	} {
		assert.Equal(t, text, annotated(t, strings.NewReader(text), snowflake.DefaultLayout()))
	}
}

func TestAnnotateOnlyPlausibleTimes(t *testing.T) {
	day := 24 * time.Hour
	epoch := snowflake.DefaultEpoch.Time()
	tests := []struct {
		name string
		at   time.Time
		want bool
	}{
		{"the epoch", epoch, false},
		{"just less than a day after the epoch", epoch.Add(day - time.Millisecond), false},
		{"a day after the epoch", epoch.Add(day), true},
		{"now", noon, true},
		{"a day from now", noon.Add(day), true},
		{"just more than a day from now", noon.Add(day + time.Millisecond), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := snowflake.DefaultLayout()
			id, err := l.Encode(snowflake.Parts{Time: test.at, Worker: 1023, Sequence: 4095})
			require.NoError(t, err)
			want := id.String()
			if test.want {
				want += fmt.Sprintf(" (%v)", l.Decode(id))
			}
			assert.Equal(t, want, annotated(t, strings.NewReader(id.String()), l))
		})
	}
}

// An ID with more bits than the layout decodes to a time after the layout's end. If
// the layout has run out, that time need not lie in the future.
func TestAnnotateOnlyIDsOfTheLayout(t *testing.T) {
	l := snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: 24 * time.Hour, TimeBits: 4, SequenceBits: 2}
	assert.Equal(t, "63 (time=1970-01-16T00:00:00.000Z worker=0 sequence=3) 64",
		annotated(t, strings.NewReader("63 64"), l))
}

// Under tail -f all words so far are out before the next are there.
func TestAnnotateWritesBeforeItWaits(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		_, err := annotate(onStreams(inR, outW), layouts.Twitter())
		outW.CloseWithError(err)
	}()
	for _, step := range []struct{ in, out string }{
		{"a 15418156036", "a "},
		{"06036480", ""},
		{"\n", "1541815603606036480 (time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0)\n"},
		{"b 7", "b "},
	} {
		_, err := io.WriteString(inW, step.in)
		require.NoError(t, err)
		got := make([]byte, len(step.out))
		_, err = io.ReadFull(outR, got)
		require.NoError(t, err)
		require.Equal(t, step.out, string(got))
	}
	require.NoError(t, inW.Close())
	rest, err := io.ReadAll(outR)
	require.NoError(t, err)
	assert.Equal(t, "7", string(rest))
}

// repeat reads as text, over and over.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

func TestAnnotateLongLinesInConstantMemory(t *testing.T) {
	size := depth.Of[int64](4, 16) << 20
	for _, text := range []string{"a", "7", "0 ", "\xff", "deadbeef12 "} {
		t.Run(text, func(t *testing.T) {
			var before, after runtime.MemStats
			var n countingWriter
			runtime.ReadMemStats(&before)
			_, err := annotate(onStreams(io.LimitReader(&repeat{text: text}, size), &n), snowflake.DefaultLayout())
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			assert.EqualValues(t, size, n)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
}

func TestAnnotateFindsAnIDAfterALongLine(t *testing.T) {
	long := strings.Repeat("long line ", 1<<18)
	out := annotated(t, strings.NewReader(long+"1541815603606036480\n"+long), layouts.Twitter())
	assert.True(t, out == long+"1541815603606036480 (time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0)\n"+long)
}

type countingWriter int

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}

// token is an escape sequence or a word.
var token = regexp.MustCompile(`\\[nrt]|\x1b\[[0-?]*[@-~]?|[0-9A-Za-z]+`)

// otherForm is the annotation of a word that is not of decimal digits only. wordAtEnd is such a word.
var (
	otherForm = regexp.MustCompile(`^ \((?:([0-9]+) )?time=[^()]*\)`)
	wordAtEnd = regexp.MustCompile(`[0-9A-Za-z_]+$`)
)

var digits = regexp.MustCompile(`^[0-9]+$`)

// strip takes the annotations out of text. It fails if an ID has no annotation, and
// leaves all other text. It works on the whole text at once.
func strip(t *testing.T, text []byte, l snowflake.Layout) []byte {
	var stripped []byte
	number := false // a fraction may follow the token before
	for {
		at := token.FindIndex(text)
		if at == nil {
			return append(stripped, text...)
		}
		fraction := number && string(text[:at[0]]) == "."
		w := string(text[at[0]:at[1]])
		stripped, text = append(stripped, text[:at[1]]...), text[at[1]:]
		if other := otherForm.FindSubmatch(text); other != nil && !digits.MatchString(w) {
			is := func(text string) bool {
				readings, err := texts.IDs([]string{text})
				return err == nil && slices.ContainsFunc(readings, func(r texts.Reading) bool {
					return r.IDs[0].String() == string(other[1]) || len(other[1]) == 0 && r.Form == command.Decimal
				})
			}
			if is(w) || is(string(wordAtEnd.Find(stripped))) {
				text = text[len(other[0]):]
			}
			continue
		}
		number = !fraction && digits.MatchString(w)
		id, err := snowflake.ParseID(w)
		if err != nil || fraction || l.Check(id) != nil {
			continue
		}
		p := l.Decode(id)
		if p.Time.Sub(l.Epoch.Time()) < 24*time.Hour || p.Time.Sub(noon) > 24*time.Hour {
			continue
		}
		rest, found := bytes.CutPrefix(text, []byte(" ("+p.String()+")"))
		require.True(t, found, "no fields after %s", w)
		text = rest
	}
}

// chunks reads as r does, in chunks of random sizes.
type chunks struct {
	r    io.Reader
	rand *rand.Rand
}

func (c chunks) Read(p []byte) (int, error) {
	return c.r.Read(p[:min(len(p), 1+c.rand.IntN(40))])
}

// requireOnlyAnnotated holds annotate against strip, for all kinds of readers.
func requireOnlyAnnotated(t *testing.T, in []byte, l snowflake.Layout, seed uint64) {
	want := annotated(t, bytes.NewReader(in), l)
	require.Equal(t, string(in), string(strip(t, []byte(want), l)))
	for name, r := range map[string]io.Reader{
		"one byte":       iotest.OneByteReader(bytes.NewReader(in)),
		"half":           iotest.HalfReader(bytes.NewReader(in)),
		"data with EOF":  iotest.DataErrReader(bytes.NewReader(in)),
		"random chunks":  chunks{bytes.NewReader(in), rand.New(rand.NewPCG(seed, 1))},
		"chunks and EOF": iotest.DataErrReader(chunks{bytes.NewReader(in), rand.New(rand.NewPCG(seed, 2))}),
	} {
		require.Equal(t, want, annotated(t, r, l), name)
	}
}

// A word may be an ID in two forms, of which each has a time that has come.
func TestAnnotateSaysThatAWordHasASecondReading(t *testing.T) {
	const id = snowflake.ID(460000000000000001) // a tweet of 2014
	word := id.Base58()
	assert.Equal(t, word+` (1739636807482683233 time=2023-12-26T13:18:30.449Z datacenter=25 worker=18 sequence=3937 form="base 62"`+
		`, or 460000000000000001 form="base 58")`, annotated(t, strings.NewReader(word), layouts.Twitter()))

	var out, errs strings.Builder
	s := onStreams(strings.NewReader(word+" "+word), &out)
	s.JSON, s.Err = true, &errs
	_, err := annotate(s, layouts.Twitter())
	require.NoError(t, err)
	assert.Equal(t, "snowflake: words in base 62 may also be in base 58: 1739636807482683233 is then 460000000000000001\n", errs.String(), "once")
}

// randomLog returns text of pieces that are likely to be mistaken for others.
func randomLog(r *rand.Rand, l snowflake.Layout) []byte {
	var b []byte
	for range r.IntN(300) {
		switch r.IntN(7) {
		case 0, 1:
			span := uint64(noon.Sub(l.Epoch.Time()) / l.Unit)
			id, err := l.Encode(snowflake.Parts{Time: l.Epoch.Time().Add(time.Duration(r.Uint64N(span)) * l.Unit)})
			if err == nil {
				b = fmt.Append(b, id)
			}
		case 2:
			b = fmt.Append(b, r.Uint64()>>r.IntN(64))
		case 3:
			b = append(b, byte(r.Uint32()))
		case 4:
			b = append(b, " \r\n-_\":,()aZ0..\\\\ntx\x1b\x1b[["[r.IntN(24)])
		case 5:
			b = append(b, "\n "...)
		case 6:
			id := snowflake.ID(r.Int64() >> r.IntN(20))
			b = append(b, []string{id.Base32(), id.Base58(), id.Base62(), "0x", fmt.Sprintf("0x%x", id), "a_" + id.Base32(), id.String() + "n"}[r.IntN(7)]...)
		}
	}
	return b
}

func TestAnnotateAddsNothingElse(t *testing.T) {
	for seed := range depth.Of[uint64](10, 100) {
		r := rand.New(rand.NewPCG(seed, 0))
		for _, p := range layouts.All() {
			requireOnlyAnnotated(t, randomLog(r, p.Layout), p.Layout, seed)
		}
	}
}

func FuzzAnnotate(f *testing.F) {
	for _, seed := range []string{
		"",
		"order 1541815603606036480 shipped\r\n",
		"1541815603606036480",
		"x1541815603606036480 1541815603606036480x 01541815603606036480 15418156036060364801",
		"1541815603606036480 (time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0)",
		"\xff\x001541815603606036480\x00",
		"9223372036854775807 9223372036854775808 18446744073709551616",
	} {
		f.Add([]byte(seed), uint8(1), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, preset uint8, seed uint64) {
		requireOnlyAnnotated(t, in, layouts.All()[int(preset)%len(layouts.All())].Layout, seed)
	})
}

func BenchmarkAnnotate(b *testing.B) {
	for name, id := range map[string]string{"with": "50000000000000000", "without": "none"} {
		b.Run("IDs="+name, func(b *testing.B) {
			line := `{"time":"2026-06-01T12:00:00Z","level":"INFO","id":"` + id + `","status":200,"took":"12ms"}` + "\n"
			b.SetBytes(int64(len(line)))
			in := io.LimitReader(strings.NewReader(strings.Repeat(line, b.N)), int64(len(line))*int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			_, err := annotate(onStreams(in, io.Discard), snowflake.DefaultLayout())
			require.NoError(b, err)
		})
	}
}
