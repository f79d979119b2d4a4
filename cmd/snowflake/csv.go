package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed-5394e6b1/snowflake"
)

// column finds a column of CSV.
type column struct {
	name      string // until the header has said which it is
	index     int    // from 0
	separator byte
	record    []byte // of several lines, which quotes hold together
}

// newColumn returns the column of a name or number, nil if there is none.
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

// header takes the first line of a file, and reports whether it is a header. It
// is, if the column has a name, or what stands there is no number.
func (c *column) header(line []byte) (bool, error) {
	if c.name == "" {
		field, _, err := c.field(line)
		if err != nil {
			return false, nil // to be reported as the first line
		}
		_, err = idOf(field)
		return err != nil && !errors.Is(err, errBlank) && len(field) > 0 && isLetter(field[0]), nil
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

// id returns the ID of the record that begins with the reader's line. It may go on
// in further lines.
func (c *column) id(r *lineReader) (snowflake.ID, error) {
	if r.long {
		return r.id()
	}
	line := r.text
	field, open, err := c.field(line)
	if !open {
		if bytes.IndexByte(line, '"') < 0 || quotesClosed(line) {
			return c.number(field, line, err)
		}
	}
	c.record = append(c.record[:0], line...)
	for closed := quotesClosed(line); !closed; {
		if len(c.record) > longestLine || r.long {
			return 0, fmt.Errorf("%w: the record is longer than %d bytes: a quote is missing", snowflake.ErrInvalidID, longestLine)
		}
		if !r.next() {
			return 0, fmt.Errorf("%w: the quote in %.32q is never closed", snowflake.ErrInvalidID, c.record)
		}
		c.record = append(append(c.record, '\n'), r.text...)
		closed = !quotesClosed(r.text) // the other half of the quotes
	}
	field, _, err = c.field(c.record)
	return c.number(field, c.record, err)
}

func (c *column) number(field, line []byte, err error) (snowflake.ID, error) {
	if err == nil {
		return idOf(field)
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return 0, errBlank
	}
	return 0, err
}

// quotesClosed reports whether all quotes that a text opens are closed in it. A quote within
// quotes is doubled, so that they are when their number is even.
func quotesClosed(record []byte) bool { return bytes.Count(record, []byte{'"'})%2 == 0 }

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
			return nil, false, fmt.Errorf("%w: there are only %s", snowflake.ErrInvalidID, plural(i+1, "column"))
		}
		rest = rest[n+end+1:]
	}
}

// quoted returns the length of a field in quotes, with them.
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
