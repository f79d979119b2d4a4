// Package input finds IDs in lists, tables of psql and mysql, CSV and JSON, which may be
// compressed.
package input

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// Options describe the place of the IDs in a text. The zero value is for a text of IDs only.
type Options struct {
	Column    string // of a table: a name, or a number from 1
	Separator string // between columns. Empty: the one of , ; tab | that the first line has most
	Field     string // of JSON objects, one a line or in an array: a name, or names with points
}

// Flags defines the flags of o in a set of flags, as package pflag has it.
func (o *Options) Flags(fs interface {
	StringVar(p *string, name, value, usage string)
}) {
	fs.StringVar(&o.Column, "column", "", "`NAME|N` of the column in CSV or a table: N counts from 1, if the columns have no names")
	fs.StringVar(&o.Separator, "separator", "",
		"the `character` between columns, or tab; by default the one that occurs most in the first line")
	fs.StringVar(&o.Field, "field", "", "the `NAME` of the field in JSON objects, one a line or in an array")
}

// Check returns an error if the options are wrong for every text. Read does not check them.
func (o *Options) Check() error {
	n, notNumber := strconv.Atoi(o.Column)
	switch {
	case o.Field != "" && o.Column != "":
		return errors.New("--column is for tables, and --field for JSON: use one of them")
	case notNumber == nil && n < 1:
		return fmt.Errorf("--column %d is under 1", n)
	case o.Separator != "tab" && utf8.RuneCountInString(o.Separator) > 1:
		return fmt.Errorf("--separator %q is not one character", o.Separator)
	}
	return nil
}

// Word is a text that should be an ID, or Err.
type Word struct {
	Line  int // in an array of JSON objects, the place of the object, from 1
	Text  string
	First bool  // it is the first word, so it may be a header
	Err   error // the reason if the line has no such text
}

// Read calls take with the words of a text, and returns the number of NULLs. It skips empty lines
// and the borders of tables. If take returns an error, Read returns it.
func Read(in io.Reader, o Options, take func(Word) error) (nulls int, err error) {
	plain, err := Plain(in)
	if err != nil {
		return 0, err
	}
	r := &reader{Options: o, in: plain, take: take, first: true}
	switch {
	case o.Field != "":
		err = r.json()
	case o.Column != "":
		err = r.table()
	default:
		err = r.list()
	}
	return r.nulls, err
}

// compressed has the first bytes of files that are not text, and advice for each.
var compressed = []struct{ magic, advice string }{
	{"\x28\xb5\x2f\xfd", "is compressed by zstd: read it with zstdcat"},
	{"BZh", "is compressed by bzip2: read it with bzcat"},
	{"\xfd7zXZ\x00", "is compressed by xz: read it with xzcat"},
	{"PK\x03\x04", "is a zip archive, as the files of spreadsheets are: save the table as CSV, with the IDs as text"},
	{"PAR1", "is a Parquet file: write its column as text"},
	{"SQLite format 3\x00", "is a database of SQLite: write its column as text"},
	{"\xff\xfe", "is UTF-16, as PowerShell writes: read it with iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "is UTF-16: read it with iconv -f UTF-16 -t UTF-8"},
}

const longestMagic = 16

// Plain returns a reader of the text, which may be compressed by gzip. It refuses other files that
// are not text.
func Plain(in io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReaderSize(in, 64<<10)
	if b, _ := r.Peek(2); string(b) == "\x1f\x8b" {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		return bufio.NewReaderSize(z, 64<<10), nil
	}
	for _, c := range compressed {
		b, _ := r.Peek(min(r.Buffered(), longestMagic)) // without waiting for more
		if bytes.HasPrefix(b, []byte(c.magic)) {
			return nil, fmt.Errorf("it %s", c.advice)
		}
	}
	return r, nil
}

type reader struct {
	Options
	in    *bufio.Reader
	take  func(Word) error
	first bool
	nulls int
}

// word passes on a cell without the quotes and other characters around the ID.
func (r *reader) word(line int, text string) error {
	if !isNumber(text) {
		text = texts.Bare(text)
	}
	if text == "" {
		return nil
	}
	if isNull(text) {
		r.nulls++
		r.first = false
		return nil
	}
	return r.pass(line, text)
}

// pass passes on a word unchanged.
func (r *reader) pass(line int, text string) error {
	w := Word{Line: line, Text: text, First: r.first}
	r.first = false
	return r.take(w)
}

func (r *reader) bad(line int, format string, args ...any) error {
	r.first = false
	return r.take(Word{Line: line, Err: fmt.Errorf(format, args...)})
}

const mark = texts.Mark

var (
	number = regexp.MustCompile(`^-?[0-9]+[Ln]?$`)

	// footer matches the last lines of psql, mysql and COPY.
	footer = regexp.MustCompile(`^(\([0-9]+ rows?\)|[0-9]+ rows? in set.*|Time: [0-9].*|\\\.)$`)
)

func isNull(s string) bool {
	switch strings.ToUpper(strings.Trim(s, "<>()")) {
	case "NULL", `\N`, "NONE", "NAN", "NIL":
		return true
	}
	return false
}

// isLayout reports whether a line has no cells: it is empty, a border or a footer.
func isLayout(line string) bool {
	return strings.Trim(line, "+-=|: \t─┌┐└┘├┤┬┴┼═╔╗╚╝╠╣╦╩╬╪╫║│"+mark) == "" || footer.MatchString(line)
}

// isNumber reports whether a text has only digits, as most lines do.
func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// lines scans lines. It cuts a line that is longer than most after the last byte of cut within most
// bytes.
func lines(in io.Reader, most int, cut string) *bufio.Scanner {
	s := bufio.NewScanner(in)
	s.Buffer(nil, 2*most)
	s.Split(func(b []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			return i + 1, b[:i+1], nil
		}
		if i := bytes.LastIndexAny(b, cut); len(b) >= most && i >= 0 {
			return i + 1, b[:i+1], nil
		}
		if len(b) >= most {
			return 0, nil, bufio.ErrTooLong
		}
		if atEOF && len(b) > 0 {
			return len(b), b, nil
		}
		return 0, nil, nil
	})
	return s
}

// longest bounds a line that is not a list of IDs, in bytes.
const longest = 64 << 10

// eachLine calls f with the lines that have cells, and their numbers.
func (r *reader) eachLine(most int, cut string, f func(line int, text string) error) error {
	s := lines(r.in, most, cut)
	n := 1
	for s.Scan() {
		text := strings.TrimRight(s.Text(), "\r\n")
		if !isNumber(text) {
			text = strings.Trim(text, " \t"+mark)
		}
		if isNumber(text) || !isLayout(text) {
			if err := f(n, text); err != nil {
				return err
			}
		}
		if bytes.HasSuffix(s.Bytes(), []byte("\n")) {
			n++
		}
	}
	if s.Err() == bufio.ErrTooLong {
		return fmt.Errorf("line %d is longer than %d KiB", n, most>>10)
	}
	return s.Err()
}

// list reads a text that has only IDs, separated by spaces, commas and the like.
func (r *reader) list() error {
	return r.eachLine(longest, " ,;\t", func(line int, text string) error {
		if isNumber(text) {
			return r.pass(line, text)
		}
		if bare := texts.Bare(text); bare != text && isNumber(bare) {
			return r.pass(line, bare)
		}
		text = texts.BareAll(text)
		cells := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t,;|│[]", c) })
		if len(cells) > 1 && slices.ContainsFunc(cells, func(cell string) bool { return !mayBeID(cell) }) {
			if !r.first {
				return r.bad(line, "%.60q is not an ID: it has %d words", text, len(cells))
			}
			return fmt.Errorf("line %d has more than an ID: %s", line, adviceOn(text))
		}
		for _, cell := range cells {
			if r.first && strings.HasPrefix(cell, "{") {
				return fmt.Errorf("line %d has more than an ID: %s", line, adviceOn(text))
			}
			if err := r.word(line, cell); err != nil {
				return err
			}
		}
		return nil
	})
}

// shortestWord is the least length of an ID that is not a number, among other words.
const shortestWord = 10

// mayBeID reports whether a word of a line may be an ID, so that the line is a list.
func mayBeID(cell string) bool {
	cell = strings.Trim(cell, "\"'`")
	if cell == "" || number.MatchString(cell) || isNull(cell) || texts.Inexact(cell) != "" {
		return true
	}
	_, err := texts.IDs([]string{cell})
	return err == nil && len(cell) >= shortestWord
}

// adviceOn returns advice for a text whose first line has more than an ID.
func adviceOn(line string) string {
	if strings.HasPrefix(strings.TrimLeft(line, "[ \t"), "{") {
		names := "as in --field id"
		if keys := firstKeys(strings.TrimLeft(line, "[ \t")); len(keys) > 0 {
			names = "one of " + strings.Join(keys, ", ")
		}
		return "name the field of the JSON objects with --field: " + names
	}
	separator := separatorOf(line)
	if separator == "" {
		return fmt.Sprintf("%.60q; snowflake decode - finds the IDs in a log", line)
	}
	var names []string
	for i, cell := range strings.Split(strings.Trim(line, "|│ "), separator) {
		if cell = strings.Trim(cell, " \"'"); cell == "" || strings.Trim(cell, "0123456789") == "" {
			cell = fmt.Sprint(i + 1)
		}
		if names = append(names, fmt.Sprintf("%.40s", cell)); len(names) > 20 {
			names[20] = "..."
			break
		}
	}
	return "name the column with --column: one of " + strings.Join(names, ", ")
}
