package main

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// margin bounds the time of a plausible ID: at least this much after the epoch, and
// at most this much after now.
const margin = 24 * time.Hour

// maxDigits is the length of the largest ID.
const maxDigits = 19

// annotate copies in to out and puts the fields after every ID. With asJSON it
// writes the IDs only, one object a line. Before it waits for more input, it writes
// all that it has read, even if the next bytes can still change a word's meaning.
func annotate(out *bufio.Writer, in io.Reader, l snowflake.Layout, asJSON bool, now func() time.Time) error {
	a := annotator{streams: streams{out: out, json: asJSON}, layout: l, now: now, shortest: shortestID(l)}
	buf := make([]byte, 256<<10)
	for {
		n, err := in.Read(buf)
		a.take(buf[:n])
		if err == io.EOF {
			a.endWord()
			return out.Flush()
		}
		if flushed := out.Flush(); flushed != nil {
			return flushed
		}
		if err != nil {
			return err
		}
	}
}

// shortestID is how many digits the smallest plausible ID has, at least 1.
func shortestID(l snowflake.Layout) int {
	id, err := l.Encode(snowflake.Parts{Time: l.Epoch.Time().Add(margin)})
	if err != nil {
		return 1
	}
	return len(id.String())
}

// annotator follows the words of its input. A word is a run of ASCII letters
// and digits; an ID is a word of digits only.
//
// To follow every byte would be slow, and is not necessary: if a word has fewer
// digits than shortest, it is no ID. So take looks at every shortest-th byte only,
// until it finds a digit, and next follows the bytes around long runs of digits.
type annotator struct {
	streams  // out remembers its errors until it is flushed
	layout   snowflake.Layout
	now      func() time.Time
	shortest int

	digits  []byte // the word's digits, up to one more than an ID can have
	letters bool   // the word has letters, or is the fraction of a number
	escape  byte   // if the byte is part of an escape: '\\', ESC, or '[' after ESC; else 0

	scratch []byte
}

// take takes a piece of the input.
func (a *annotator) take(b []byte) {
	at := a.follow(b, 0, 0) // a word may have begun in the last piece
	for at < len(b) {
		start, end := a.run(b[at:])
		start, end = start+at, end+at
		from := a.resync(b, at, start)
		if from > at {
			a.copy(b[at:from])
			a.digits, a.letters, a.escape = a.digits[:0], false, 0
		}
		at = a.follow(b, from, end)
	}
}

// follow calls next for the bytes of b from at to end, and for more bytes until a
// word ends. It returns the index at which it stopped.
func (a *annotator) follow(b []byte, at, end int) int {
	for at < len(b) {
		inWord := isDigit(b[at]) || isLetter(b[at])
		a.next(b[at])
		at++
		if at > end && !inWord {
			break
		}
	}
	return at
}

// run finds the first run of digits in b that has the length of an ID or reaches the
// end of b. If there is no such run, both results are len(b).
func (a *annotator) run(b []byte) (start, end int) {
	for i := a.shortest - 1; i < len(b); {
		if !isDigit(b[i]) {
			i += a.shortest
			continue
		}
		start, end = i, i+1
		for start > 0 && isDigit(b[start-1]) {
			start--
		}
		for end < len(b) && isDigit(b[end]) {
			end++
		}
		if n := end - start; n >= a.shortest && n <= maxDigits && b[start] != '0' || end == len(b) {
			return start, end
		}
		i = end + a.shortest
	}
	return len(b), len(b)
}

// resync returns the last index from floor to at from which follow can begin as if
// the input began there. If there is no such index, it returns floor, up to which
// the annotator has followed the input.
func (a *annotator) resync(b []byte, floor, at int) int {
	for at > floor {
		switch c := b[at-1]; {
		case isDigit(c), isLetter(c), c == '.', c == '\\', c == esc, c == '[':
			at-- // the state after these depends on what is before them
		case ' ' <= c && c < '@':
			start := at - 1 // of the parameters of a colour, if it is one
			for start > floor && ' ' <= b[start-1] && b[start-1] < '@' {
				start--
			}
			if start > floor && b[start-1] != '[' {
				return at
			}
			at = start
		default:
			return at
		}
	}
	return floor
}

// copy writes bytes that have no ID.
func (a *annotator) copy(b []byte) {
	if !a.json {
		a.out.Write(b)
	}
}

// next takes one byte of the input.
func (a *annotator) next(c byte) {
	switch {
	case a.escaped(c):
		a.endWord()
	case isDigit(c):
		if len(a.digits) <= maxDigits {
			a.digits = append(a.digits, c)
		}
	case isLetter(c):
		a.letters = true
	default:
		number := len(a.digits) > 0 && !a.letters
		a.endWord()
		a.letters = c == '.' && number
	}
	if !a.json {
		a.out.WriteByte(c)
	}
}

const esc = 0x1b

// escaped reports whether c is the rest of an escape: for a new line or a tab, as in
// logs that are JSON, or for a colour on a terminal. If it is, c is no part of a
// word.
func (a *annotator) escaped(c byte) bool {
	in := a.escape
	switch {
	case in == '[' && ' ' <= c && c < '@': // a parameter
		return true
	case in == esc && c == '[':
		a.escape = '['
		return true
	case c == esc, c == '\\' && in != '[':
		a.escape = c
	default:
		a.escape = 0
	}
	return in == '[' || in == '\\' && (c == 'n' || c == 'r' || c == 't')
}

// endWord puts the fields after the word if it is an ID.
func (a *annotator) endWord() {
	if len(a.digits) >= a.shortest && !a.letters {
		id, err := idOf(a.digits)
		if err == nil && a.layout.Check(id) == nil && a.plausible(id) {
			a.found(id)
		}
	}
	a.digits, a.letters = a.digits[:0], false
}

func (a *annotator) found(id snowflake.ID) {
	if a.json {
		a.writeDecoded(a.layout, id)
		return
	}
	a.scratch = append(a.scratch[:0], " ("...)
	a.scratch = appendParts(a.scratch, a.layout.Decode(id))
	a.out.Write(append(a.scratch, ')'))
}

// appendParts appends the text of p.String, in a fraction of its time.
func appendParts(b []byte, p snowflake.Parts) []byte {
	if p.Time.Nanosecond()%int(time.Millisecond) != 0 {
		return append(b, p.String()...)
	}
	b = append(b, "time="...)
	b = p.Time.AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = strconv.AppendInt(append(b, " clockseq="...), int64(p.ClockSeq), 10)
	b = strconv.AppendInt(append(b, " datacenter="...), int64(p.Datacenter), 10)
	b = strconv.AppendInt(append(b, " worker="...), int64(p.Worker), 10)
	return strconv.AppendInt(append(b, " sequence="...), int64(p.Sequence), 10)
}

// plausible reports whether id's time lies within the margins.
func (a *annotator) plausible(id snowflake.ID) bool {
	t := a.layout.Decode(id).Time
	return !t.Before(a.layout.Epoch.Time().Add(margin)) && !t.After(a.now().Add(margin))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
