package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
)

// longestLine is how long a line may be. A longer line is skipped, and reported.
const longestLine = 64 << 10

// lineReader reads lines, which may end with LF, CR LF or CR. It never holds more
// than one buffer, however long a line is.
type lineReader struct {
	number int64  // of the current line, from 1
	text   []byte // the line, valid until next is called
	long   bool   // the line was longer than longestLine; text is its start
	err    error  // why reading ended; nil at the end of the input

	in       io.Reader
	buf      []byte
	pos, end int
	eof      bool
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: in, buf: make([]byte, 16*longestLine)}
}

// next reads a line, and reports whether there was one.
func (l *lineReader) next() bool {
	if l.number == 0 {
		l.skipMark()
	}
	for {
		text := l.buf[l.pos:l.end]
		if n, skip := lineEnd(text, l.eof); skip > 0 {
			l.text, l.long = text[:n], n > longestLine
			l.pos += skip
			l.number++
			return true
		}
		switch {
		case l.eof && len(text) > 0 && l.err == nil: // after an error, the line may be cut off
			l.text, l.long = text, len(text) > longestLine
			l.pos = l.end
			l.number++
			return true
		case l.eof:
			return false
		case len(text) > longestLine:
			return l.skipLong()
		}
		l.fill()
	}
}

// lineEnd returns the length of the first line of text without its end, and with its
// end. The second is 0 if text does not have the end yet.
func lineEnd(text []byte, eof bool) (n, skip int) {
	n = -1
	// Look at the start first: if lines end with CR alone, LF may be far away.
	for size := 64; size < len(text); size *= 4 {
		if n = bytes.IndexByte(text[:size], '\n'); n >= 0 {
			break
		}
		// The byte before the last one: LF may follow a CR.
		if cr := bytes.IndexByte(text[:size-1], '\r'); cr >= 0 {
			if text[cr+1] == '\n' {
				return cr, cr + 2
			}
			return cr, cr + 1
		}
	}
	if n < 0 {
		n = bytes.IndexByte(text, '\n')
	}
	if n < 0 {
		n = len(text)
	} else {
		skip = n + 1
	}
	cr := bytes.IndexByte(text[:n], '\r')
	switch {
	case cr < 0:
		return n, skip
	case cr == n-1 && skip > 0: // CR LF
		return cr, skip
	case cr == len(text)-1 && !eof: // LF may follow
		return n, 0
	}
	return cr, cr + 1
}

// skipMark skips the byte order mark with which some programs begin a file in UTF-8.
func (l *lineReader) skipMark() {
	for l.end-l.pos < 3 && !l.eof {
		l.fill()
	}
	if bytes.HasPrefix(l.buf[l.pos:l.end], []byte("\xef\xbb\xbf")) {
		l.pos += 3
	}
}

// skipLong skips the rest of a line whose start fills the buffer.
func (l *lineReader) skipLong() bool {
	start := bytes.Clone(l.buf[l.pos : l.pos+64])
	l.number++
	l.text, l.long = start, true
	for {
		if _, skip := lineEnd(l.buf[l.pos:l.end], l.eof); skip > 0 {
			l.pos += skip
			return true
		}
		if l.eof {
			l.pos = l.end
			return true
		}
		l.pos = l.end
		if l.end > 0 && l.buf[l.end-1] == '\r' { // LF may follow, or the next line
			l.pos--
		}
		l.fill()
	}
}

// fill reads more.
func (l *lineReader) fill() {
	if l.pos > 0 {
		l.end = copy(l.buf, l.buf[l.pos:l.end])
		l.pos = 0
	}
	n, err := l.in.Read(l.buf[l.end:])
	l.end += n
	if err != nil {
		l.eof = true
		if !errors.Is(err, io.EOF) {
			l.err = err
		}
	}
}

// errBlank is the error of id for a line of spaces.
var errBlank = errors.New("the line is empty")

// id reads the line as an ID, without the spaces, quotes and commas around it.
func (l *lineReader) id() (snowflake.ID, error) {
	if l.long {
		return 0, fmt.Errorf("%w: the line is longer than %d bytes", snowflake.ErrInvalidID, longestLine)
	}
	return idOf(l.text)
}

// idOf reads a decimal ID, without making a string of it.
func idOf(text []byte) (snowflake.ID, error) {
	var v int64
	if len(text) == 0 || len(text) >= maxDigits || text[0] == '0' {
		return idOfAny(text)
	}
	for _, c := range text {
		d := c - '0'
		if d > 9 {
			return idOfAny(text)
		}
		v = 10*v + int64(d)
	}
	return snowflake.ID(v), nil
}

// idOfAny is idOf for texts that are not 1 to 18 digits.
func idOfAny(text []byte) (snowflake.ID, error) {
	text = bytes.Trim(text, " \t\",")
	if len(text) == 0 {
		return 0, errBlank
	}
	return snowflake.ParseID(string(text[:min(len(text), 64)]))
}

// plainError returns an error's text without the name of the package.
func plainError(err error) string {
	return oneLine.Replace(strings.TrimPrefix(err.Error(), "snowflake: "))
}
