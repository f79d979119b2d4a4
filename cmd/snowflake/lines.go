package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake"
)

// longestLine is how many bytes a line may have. A longer line is skipped, and
// reported.
const longestLine = 64 << 10

// eachLine calls f with the number and text of each line, which ends with LF or CR LF,
// or with an error if the line is too long. If the input fails, it leaves out the
// last line, because the line may be cut off.
func eachLine(in io.Reader, f func(line int64, text string, err error) error) error {
	r := skipMark(bufio.NewReaderSize(in, longestLine+2))
	for line := int64(1); ; line++ {
		text, end := r.ReadSlice('\n')
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		long := len(text) > longestLine
		for errors.Is(end, bufio.ErrBufferFull) {
			long = true
			_, end = r.ReadSlice('\n')
		}
		if end != nil && end != io.EOF {
			return end
		}
		var err error
		switch {
		case long:
			err = f(line, "", fmt.Errorf("%w: the line is longer than %d bytes", snowflake.ErrInvalidID, longestLine))
		case end == nil || len(text) > 0:
			err = f(line, string(text), nil)
		}
		if err != nil || end != nil {
			return err
		}
	}
}

// skipMark skips the byte order mark with which some programs begin a file in UTF-8.
func skipMark(in *bufio.Reader) *bufio.Reader {
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(3)
	}
	return in
}

// errBlank is the error of a text of spaces.
var errBlank = errors.New("there is no ID")

// idOf reads a decimal ID, without the spaces, quotes and commas around it.
func idOf(text string) (snowflake.ID, error) {
	text = strings.Trim(text, " \t\",")
	if text == "" {
		return 0, errBlank
	}
	return snowflake.ParseID(text[:min(len(text), 64)])
}

var errNoColumn = errors.New("there is no column")

// column is a column of CSV.
type column struct {
	name      string // or its number, from 1
	separator rune
}

// newColumn returns the column of a name or number.
func newColumn(name, separator string) (*column, error) {
	if separator == "tab" {
		separator = "\t"
	}
	r, n := utf8.DecodeRuneInString(separator)
	if n == 0 || n < len(separator) || strings.ContainsRune("\"\r\n\uFFFD", r) {
		return nil, fmt.Errorf("--separator %q is not one character", separator)
	}
	if n, err := strconv.Atoi(name); err == nil && n < 1 {
		return nil, fmt.Errorf("--column %d: columns count from 1", n)
	}
	return &column{name, r}, nil
}

// each calls f with the column's text and first line of each record, or with an error
// if the record has no such column. If the column has a number, a first record that
// may be a header is left out.
func (c *column) each(in io.Reader, f func(line int64, text string, err error) error) error {
	r := csv.NewReader(skipMark(bufio.NewReader(in)))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = c.separator, -1, true
	number, named := strconv.Atoi(c.name)
	for index, first := number-1, true; ; first = false {
		record, err := r.Read()
		bad := (*csv.ParseError)(nil)
		switch isBad := errors.As(err, &bad); {
		case err == io.EOF:
			return nil
		case isBad && (named == nil || !first):
			err = f(int64(bad.StartLine), "", fmt.Errorf("%w: %w", snowflake.ErrInvalidID, err))
		case err != nil:
			return err
		case first && named != nil:
			if index = slices.Index(record, c.name); index < 0 {
				return fmt.Errorf("%w %q in the header %q", errNoColumn, c.name, record)
			}
		case first && len(record) > index && isHeader(strings.TrimSpace(record[index])):
		case len(record) <= index:
			line, _ := r.FieldPos(0)
			err = f(int64(line), "", fmt.Errorf("%w: the record has only %s", snowflake.ErrInvalidID, plural(len(record), "column")))
		default:
			line, _ := r.FieldPos(0)
			err = f(int64(line), record[index], nil)
		}
		if err != nil {
			return err
		}
	}
}

// isHeader reports whether a field may be the name of a column: it is printable,
// and begins with no digit, sign or point.
func isHeader(field string) bool {
	strange := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	return field != "" && !strings.ContainsRune("0123456789+-.", rune(field[0])) && !strings.ContainsFunc(field, strange)
}
