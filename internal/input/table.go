package input

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// separatorOf returns the one of , ; tab | that occurs most in a line, outside of quotes, or "" if
// none does.
func separatorOf(line string) (most string) {
	count := map[string]int{}
	for i, part := range strings.Split(line, `"`) {
		for _, s := range []string{"|", "│", ",", ";", "\t"} {
			if i%2 == 1 { // within quotes
				break
			}
			if count[s] += strings.Count(part, s); count[s] > count[most] {
				most = s
			}
		}
	}
	return most
}

// column is a column of a table.
type column struct {
	*reader
	index  int // -1 until it is known
	before int // the number of lines before the table
}

// table reads a column of CSV, or of a table with bars between the cells.
func (r *reader) table() error {
	b, err := r.in.Peek(longest)
	if err != nil && err != io.EOF {
		return err
	}
	c := column{reader: r, index: -1}
	for _, line := range strings.SplitAfter(string(b), "\n") {
		text := strings.Trim(line, "\r\n"+mark)
		// Excel writes and reads such a line.
		if s, ok := strings.CutPrefix(text, "sep="); ok && r.Separator == "" && utf8.RuneCountInString(s) == 1 {
			r.Separator = s
			_, _ = r.in.Discard(len(line))
			c.before = 1
			break
		}
		if !isLayout(text) {
			if r.Separator == "" {
				r.Separator = separatorOf(text)
			}
			break
		}
	}
	if n, err := strconv.Atoi(r.Column); err == nil {
		c.index = n - 1
	}
	switch r.Separator {
	case "|", "│":
		err = c.bars()
	case "tab":
		err = c.csv("\t")
	case "":
		err = c.csv(",")
	default:
		err = c.csv(r.Separator)
	}
	if err == nil && c.index < 0 {
		err = fmt.Errorf("there is no column %q: there are no rows", r.Column)
	}
	return err
}

func (c *column) csv(separator string) error {
	comma, _ := utf8.DecodeRuneInString(separator)
	in := csv.NewReader(&cells{in: c.in, separator: separator[len(separator)-1], begins: true})
	in.Comma, in.ReuseRecord, in.FieldsPerRecord = comma, true, -1
	for {
		cells, err := in.Read()
		var bad *csv.ParseError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &bad) && bad.Line > bad.StartLine:
			err = c.bad(c.before+bad.StartLine, "a quote is open, so the lines up to %d were taken for one: %w", c.before+bad.Line, bad.Err)
		case errors.As(err, &bad):
			err = c.bad(c.before+bad.Line, "it is no CSV: %w", bad.Err)
		case err == nil:
			line, _ := in.FieldPos(min(max(c.index, 0), len(cells)-1))
			err = c.row(cells, c.before+line)
		}
		if err != nil {
			return err
		}
	}
}

// cells reads CSV and leaves out each = before a cell's quote, as in x,="117469438034313216". It
// keeps spreadsheets from rounding the cell.
type cells struct {
	in        *bufio.Reader
	separator byte
	begins    bool // the next byte begins a cell
}

func (r *cells) Read(p []byte) (n int, err error) {
	for n < len(p) && (n == 0 || r.in.Buffered() > 0) {
		c, err := r.in.ReadByte()
		if err != nil {
			return n, err
		}
		if c == '=' && r.begins {
			if next, _ := r.in.Peek(1); string(next) == `"` {
				continue
			}
		}
		r.begins = c == r.separator || c == '\n'
		p[n] = c
		n++
	}
	return n, nil
}

func (c *column) bars() error {
	return c.eachLine(longest, "", func(line int, text string) error {
		text = strings.ReplaceAll(text, "│", "|")
		return c.row(strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "|"), "|"), "|"), line)
	})
}

// row passes on a cell. The first row has the names of the columns, unless the column is given by
// its number.
func (c *column) row(cells []string, line int) error {
	if c.index < 0 {
		for i, cell := range cells {
			cells[i] = strings.Trim(cell, " \t\r"+mark)
		}
		if c.index = slices.Index(cells, c.Column); c.index < 0 {
			c.index = slices.IndexFunc(cells, func(s string) bool { return strings.EqualFold(s, c.Column) })
		}
		if c.index < 0 {
			return fmt.Errorf("there is no column %q in the header %q", c.Column, cells)
		}
		c.first = false
		return nil
	}
	switch {
	case c.index < len(cells):
		return c.word(line, cells[c.index])
	case c.first:
		return fmt.Errorf("there is no column %d: the first row has columns 1 to %d", c.index+1, len(cells))
	}
	return c.bad(line, "it has no column %d, but %d", c.index+1, len(cells))
}
