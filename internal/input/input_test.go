package input

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// read returns the words of a text, the lines of the words, and the lines that have none.
func read(t *testing.T, text string, o Options) (words []string, lines []int, bad map[int]string, nulls int) {
	t.Helper()
	bad = map[int]string{}
	nulls, err := Read(strings.NewReader(text), o, func(w Word) error {
		if w.Err != nil {
			bad[w.Line] = w.Err.Error()
			return nil
		}
		words, lines = append(words, w.Text), append(lines, w.Line)
		return nil
	})
	require.NoError(t, err, text)
	return words, lines, bad, nulls
}

const a, b = "117469438034313216", "117469438034313217"

// Each text has the IDs a and b, and perhaps a header.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		o     Options
		lines []int // of a and b
		nulls int
	}{
		"a list":                {a + "\n" + b + "\n", Options{}, []int{1, 2}, 0},
		"no last newline":       {a + "\n\n" + b, Options{}, []int{1, 3}, 0},
		"of Windows":            {"\ufeff" + a + "\r\n" + b + "\r\n", Options{}, []int{1, 2}, 0},
		"with a header":         {"id\n" + a + "\n" + b, Options{}, []int{2, 3}, 0},
		"a JSON array":          {"[" + a + "," + b + "]", Options{}, []int{1, 1}, 0},
		"a JSON array, pretty":  {"[\n  \"" + a + "\",\n  null,\n  \"" + b + "\"\n]\n", Options{}, []int{2, 4}, 1},
		"longs":                 {"[" + a + "L, " + b + "L]", Options{}, []int{1, 1}, 0},
		"JavaScript's BigInts":  {a + "n\n" + b + "n", Options{}, []int{1, 2}, 0},
		"semicolons":            {a + ";" + b + ";\n", Options{}, []int{1, 1}, 0},
		"SQL":                   {"'" + a + "', '" + b + "'", Options{}, []int{1, 1}, 0},
		"with thousands":        {"117,469,438,034,313,216\n\"117,469,438,034,313,217\"\n", Options{}, []int{1, 2}, 0},
		"with points":           {"117.469.438.034.313.216\n117 469 438 034 313 217\n", Options{}, []int{1, 2}, 0},
		"kept by a spreadsheet": {"=\"" + a + "\"\n=\"" + b + "\"\n", Options{}, []int{1, 2}, 0},
		"mongosh":               {"[\n  Long(\"" + a + "\"),\n  Long(\"" + b + "\")\n]\n", Options{}, []int{2, 3}, 0},
		"the mongo shell":       {"[ NumberLong(\"" + a + "\"), NumberLong(" + b + ") ]", Options{}, []int{1, 1}, 0},
		"MongoDB's JSON":        {"[{\"$numberLong\": \"" + a + "\"}, {\"$numberLong\":\"" + b + "\"}]", Options{}, []int{1, 1}, 0},
		"NULLs":                 {"NULL\n" + a + "\n\\N\n(null)\n" + b + "\nNaN\n", Options{}, []int{2, 5}, 4},
		"psql":                  {"         id         \n--------------------\n " + a + "\n " + b + "\n(2 rows)\n\n", Options{}, []int{3, 4}, 0},
		"psql, unicode":         {"┌──────┐\n│  id  │\n├──────┤\n│ " + a + " │\n│ " + b + " │\n└──────┘\n(2 rows)\n", Options{}, []int{4, 5}, 0},
		"mysql":                 {"+----+\n| id |\n+----+\n| " + a + " |\n| " + b + " |\n+----+\n2 rows in set (0.00 sec)\n", Options{}, []int{4, 5}, 0},
		"psql, a column":        {" id | item \n----+------\n " + a + " | x\n " + b + " | y, z\n(2 rows)\n", Options{Column: "id"}, []int{3, 4}, 0},
		"mysql, a column":       {"+----+----+\n| item | id |\n+----+----+\n| x | " + a + " |\n| y | " + b + " |\n+----+----+\n", Options{Column: "ID"}, []int{4, 5}, 0},
		"Markdown":              {"| item | id |\n|---|--:|\n| x | " + a + " |\n| y | " + b + " |\n", Options{Column: "2"}, []int{3, 4}, 0},
		"CSV":                   {"item,id\n\"x, \"\"y\"\"\"," + a + "\n\"two\nlines\"," + b + "\n", Options{Column: "id"}, []int{2, 4}, 0},
		"CSV of Europe":         {"item;id\nx,y;" + a + "\nz,z;" + b + "\n", Options{Column: "id"}, []int{2, 3}, 0},
		"CSV of Excel":          {"\ufeffsep=;\r\nitem;id\r\nx;" + a + "\r\ny;" + b, Options{Column: "id"}, []int{3, 4}, 0},
		"tabs":                  {"item\tid\nx\t" + a + "\ny\t" + b + "\n", Options{Column: "id"}, []int{2, 3}, 0},
		"tabs, as said":         {"item\tid\nx\t" + a + "\ny\t" + b + "\n", Options{Column: "id", Separator: "tab"}, []int{2, 3}, 0},
		"CSV without a header":  {"x," + a + "\ny," + b + "\n", Options{Column: "2"}, []int{1, 2}, 0},
		"JSON lines":            {"{\"id\":" + a + "}\n{\"id\":null}\n{\"id\":\"" + b + "\",\"x\":[1]}\n", Options{Field: "id"}, []int{1, 3}, 1},
		"JSON lines, deep":      {"{\"order\":{\"id\":" + a + "}}\n{\"order.id\":" + b + "}\n", Options{Field: "order.id"}, []int{1, 2}, 0},
		"mongoexport":           {"{\"_id\":{\"$numberLong\":\"" + a + "\"}}\n{\"_id\":{ \"$numberLong\": \"" + b + "\" }}\n", Options{Field: "_id"}, []int{1, 2}, 0},
		"a spreadsheet's CSV":   {"item,id\nx,\"=\"\"" + a + "\"\"\"\ny,=\"" + b + "\"\n", Options{Column: "id"}, []int{2, 3}, 0},
		"JSON array of objects": {"\ufeff [ {\"id\":" + a + "},\n {\"id\":\"" + b + "\"} ]", Options{Field: "id"}, []int{1, 2}, 0},
	} {
		words, lines, bad, nulls := read(t, test.text, test.o)
		if len(words) == 3 {
			require.Equal(t, "id", strings.ToLower(words[0]), name)
			words, lines = words[1:], lines[1:]
		}
		assert.Equal(t, []string{a, b}, words, name)
		assert.Equal(t, test.lines, lines, name)
		assert.Empty(t, bad, name)
		assert.Equal(t, test.nulls, nulls, name)
	}
}

// A bad line is collected, and the lines after it are read.
func TestBadLinesAreCollected(t *testing.T) {
	for text, test := range map[string]struct {
		o    Options
		says string // of line 2
	}{
		a + "\norder 5 shipped\n" + b:                   {Options{}, `"order 5 shipped" is not an ID: it has 3 words`},
		"id,x\n5,5\" nail\n" + a + ",\n" + b + ",":      {Options{Column: "id"}, `it is no CSV: bare "`},
		"x," + a + "\nx\ny," + b:                        {Options{Column: "2"}, "it has no column 2, but 1"},
		"{\"id\":" + a + "}\n{\"id\n{\"id\":" + b + "}": {Options{Field: "id"}, "not a JSON object"},
		"{\"id\":" + a + "}\n{\"ts\":1764374400000,\"payload\":{\"op\":\"c\",\"after\":{\"id\":" + a + ",\"text\":\"a longer text\"}},\"key\":\"order_038ANTKF00000\"}\n{\"id\":" + b + "}": {
			Options{Field: "id"}, `no field "id"; IDs are in key, payload.after.id`},
		"{\"id\":" + a + "}\n{\"no\":5}\n{\"id\":" + b + "}":  {Options{Field: "id"}, `no field "id"; the fields are no`},
		"{\"id\":" + a + "}\n{\"id\":{}}\n{\"id\":" + b + "}": {Options{Field: "id"}, "the field id is no number or text"},
	} {
		words, _, bad, _ := read(t, text, test.o)
		assert.Equal(t, []string{a, b}, words, text)
		require.Len(t, bad, 1, text)
		assert.Contains(t, bad[2], test.says)
	}
	words, _, bad, _ := read(t, "id\n"+a+"\n\"5\n"+b+"\n", Options{Column: "id"})
	assert.Equal(t, []string{a}, words)
	assert.Contains(t, bad[3], "a quote is open, so the lines up to 4 were taken for one")
}

func TestReadRefuses(t *testing.T) {
	for text, test := range map[string]struct {
		o    Options
		says string
	}{
		"id,name\n5,x\n":              {Options{}, "line 1 has more than an ID: name the column with --column: one of id, name"},
		"5,x\n":                       {Options{}, "--column: one of 1, x"},
		"| id | name |\n":             {Options{}, "one of id, name"},
		" id | name \n----+---\n":     {Options{}, "one of id, name"},
		"{\"name\":\"x\",\"id\":5}\n": {Options{}, "name the field of the JSON objects with --field: one of id, name"},
		"[{\"name\":\"x\",\"id\":5},": {Options{}, "--field: one of id, name"},
		"{\"name\":\"x\",\"after\":{\"id\":" + a + "}}\n": {Options{}, "with --field: one of after.id"},
		"[\n{\n\"id\": 5}]":                {Options{}, "--field: as in --field id"},
		"order 117469438034313216 shipped": {Options{}, "snowflake decode - finds the IDs in a log"},
		"name\n5":                          {Options{Column: "id"}, `no column "id" in the header ["name"]`},
		"":                                 {Options{Column: "id"}, `no column "id": there are no rows`},
		"5\n":                              {Options{Column: "2"}, "no column 2: the first row has columns 1 to 1"},
		"[{\"id\":5}, {":                   {Options{Field: "id"}, "element 2: unexpected EOF"},
		"PK\x03\x04\x14\x00":               {Options{}, "a zip archive"},
		"\xff\xfe5\x00\n\x00":              {Options{}, "UTF-16"},
		"5\n" + strings.Repeat("7", 3<<20): {Options{}, "line 2 is longer than 64 KiB"},
		"\x1f\x8b":                         {Options{}, "unexpected EOF"},
	} {
		_, err := Read(strings.NewReader(text), test.o, func(Word) error { return nil })
		assert.ErrorContains(t, err, test.says, "%.40q", text)
	}
	_, err := Read(strings.NewReader("INSERT"+strings.Repeat(",a long value", 5000)), Options{}, func(Word) error { return nil })
	require.ErrorContains(t, err, "--column: one of INSERT, a long value")
	assert.Less(t, len(err.Error()), 1000)
	stop := errors.New("stop")
	_, err = Read(strings.NewReader("5\n6\n"), Options{}, func(Word) error { return stop })
	assert.Equal(t, stop, err)
}

// A JSON array of any length may stand in one line, and arrive in any pieces.
func TestLongLists(t *testing.T) {
	text := "[" + strings.Repeat(a+", ", 100_000) + b + "]"
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, in := range map[string]io.Reader{
		"plain":     strings.NewReader(text),
		"gzip":      &z,
		"in halves": iotest.HalfReader(strings.NewReader(text)),
	} {
		n, last := 0, ""
		_, err := Read(in, Options{}, func(w Word) error {
			if n++; w.Line != 1 || w.Err != nil || w.Text != a && w.Text != b {
				return errors.New("a word is broken: " + w.Text)
			}
			last = w.Text
			return nil
		})
		require.NoError(t, err, name)
		assert.Equal(t, 100_001, n, name)
		assert.Equal(t, b, last, name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("id,name\n5,x\n", "id", ",", "")
	f.Add("| id |\n| 5 |\n", "1", "|", "")
	f.Add("{\"id\":5}\n", "", "", "id")
	f.Add("[5, 6L, null]", "", "", "")
	f.Fuzz(func(t *testing.T, text, column, separator, field string) {
		last := 0
		_, err := Read(strings.NewReader(text), Options{column, separator, field}, func(w Word) error {
			if w.Err == nil {
				require.NotEmpty(t, w.Text)
			}
			require.GreaterOrEqual(t, w.Line, last)
			last = w.Line
			return nil
		})
		if err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}
