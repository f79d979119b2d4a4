package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake"
)

// column finds a column of CSV.
type column struct {
	name      string // "" if the column has a number
	index     int    // from 0
	separator byte
	record    []byte // the record, if quotes make several lines one record
}

// newColumn returns the column of a name or number, or nil if name is empty.
func newColumn(name, separator string) (*column, error) {
	if separator == "tab" {
		separator = "\t"
	}
	if len(separator) != 1 || separator == `"` {
		return nil, fmt.Errorf("-separator %q is not one byte", separator)
	}
	if name == "" {
		return nil, nil
	}
	c := &column{separator: separator[0], index: -1}
	n, err := strconv.Atoi(name)
	switch {
	case err != nil:
		c.name = name
	case n < 1:
		return nil, fmt.Errorf("-column %d: columns count from 1", n)
	default:
		c.index = n - 1
	}
	return c, nil
}

// header takes the first line of a file, and reports whether it is a header. If the
// column has a name, it is. If the column has a number, the line is a header if the
// column's text does not begin like a number.
func (c *column) header(line []byte) (bool, error) {
	if c.name == "" {
		field, _, err := c.field(line)
		if err != nil {
			return false, nil // id reports it, as an error of the first line
		}
		return isHeader(string(bytes.TrimSpace(field))), nil
	}
	for c.index = 0; ; c.index++ {
		field, _, err := c.field(line)
		if err != nil {
			c.index = -1
			return false, fmt.Errorf("there is no column %q in the header %.64q", c.name, line)
		}
		if string(field) == c.name {
			return true, nil
		}
	}
}

// isHeader reports whether a field may be the name of a column: it is printable,
// and begins with no digit, sign or point.
func isHeader(field string) bool {
	for _, r := range field {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return field != "" && !strings.ContainsRune("0123456789+-.", rune(field[0]))
}

// id returns the ID of the record that begins with the reader's line, and the ID's
// text. If quotes are open at the end of the line, it reads more lines.
func (c *column) id(r *lineReader) (snowflake.ID, []byte, error) {
	if r.long {
		id, err := r.id()
		return id, nil, err
	}
	if bytes.IndexByte(r.text, '"') < 0 || !c.open(r.text, false) {
		return c.number(r.text)
	}
	c.record = append(c.record[:0], r.text...)
	for open := true; open; {
		if len(c.record) > longestLine || r.long {
			return 0, nil, fmt.Errorf("%w: the record is longer than %d bytes: a quote is missing", snowflake.ErrInvalidID, longestLine)
		}
		if !r.next() {
			return 0, nil, fmt.Errorf("%w: the quote in %.32q is never closed", snowflake.ErrInvalidID, c.record)
		}
		c.record = append(append(c.record, '\n'), r.text...)
		open = c.open(r.text, true)
	}
	return c.number(c.record)
}

// number returns the ID of a whole record, and the ID's text.
func (c *column) number(record []byte) (snowflake.ID, []byte, error) {
	field, _, err := c.field(record)
	if err == nil {
		id, err := idOf(field)
		return id, field, err
	}
	if len(bytes.TrimSpace(record)) == 0 {
		return 0, nil, errBlank
	}
	return 0, nil, err
}

// open reports whether a line ends within quotes; in says whether it begins within
// quotes. Only quotes around a field count; other quotes are characters of the
// field.
func (c *column) open(line []byte, in bool) bool {
	for {
		n := 0 // the length of the quoted field
		if in {
			line = append([]byte{'"'}, line...)
		}
		if len(line) > 0 && line[0] == '"' {
			if n, in = quoted(line); in {
				return true
			}
		}
		end := bytes.IndexByte(line[n:], c.separator)
		if end < 0 {
			return false
		}
		line = line[n+end+1:]
	}
}

// field returns the column of a record, without quotes around it, and whether the
// quotes are still open at its end.
func (c *column) field(record []byte) (field []byte, open bool, err error) {
	rest := record
	for i := 0; ; i++ {
		var n int // the length of the field
		if len(rest) > 0 && rest[0] == '"' {
			n, open = quoted(rest)
			if open {
				return nil, true, nil
			}
		}
		end := bytes.IndexByte(rest[n:], c.separator)
		if i == c.index {
			if end >= 0 {
				rest = rest[:n+end]
			}
			if n >= 2 {
				return bytes.ReplaceAll(rest[1:n-1], []byte(`""`), []byte(`"`)), false, nil
			}
			return rest, false, nil
		}
		if end < 0 {
			return nil, false, fmt.Errorf("%w: the record has only %s", snowflake.ErrInvalidID, plural(i+1, "column"))
		}
		rest = rest[n+end+1:]
	}
}

// quoted returns the length of a field in quotes, quotes included, and whether the
// quotes are still open at the end of text.
func quoted(text []byte) (n int, open bool) {
	for n = 1; ; {
		i := bytes.IndexByte(text[n:], '"')
		if i < 0 {
			return len(text), true
		}
		n += i + 1
		if n == len(text) || text[n] != '"' {
			return n, false
		}
		n++ // a doubled quote
	}
}
