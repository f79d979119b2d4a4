package main

import (
	"bufio"
	"io"
	"math"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// margin bounds the time of a plausible ID: at least this much after the epoch, and
// at most this much after now.
const margin = 24 * time.Hour

// maxDigits is the length of the largest ID.
const maxDigits = 19

// annotate copies in to out and puts the fields after every ID, and reports whether there
// was an ID. With asJSON it writes the IDs only, one object a line. Before it waits for more input, it writes
// all that it has read, even if the next bytes can still change a word's meaning.
func annotate(out *bufio.Writer, in io.Reader, l snowflake.Layout, asJSON bool, now func() time.Time) (found bool, err error) {
	a := annotator{streams: streams{out: out, json: asJSON}, layout: l, now: now}
	if least, err := l.Encode(snowflake.Parts{Time: l.Epoch.Time().Add(margin)}); err == nil {
		a.least = uint64(least)
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := in.Read(buf)
		a.take(buf[:n])
		if err == io.EOF {
			a.write(nil, a.word)
			return a.found, out.Flush()
		}
		if flushed := out.Flush(); flushed != nil {
			return a.found, flushed
		}
		if err != nil {
			return a.found, err
		}
	}
}

// annotator follows the words of its input.
type annotator struct {
	streams // out remembers its errors until it is flushed
	layout  snowflake.Layout
	now     func() time.Time
	least   uint64 // no plausible ID is less
	word    word   // at the end of the last piece
	found   bool   // there was an ID
}

// word is a run of ASCII letters and digits. An ID is a word of digits only.
type word struct {
	digits int    // how many; more than maxDigits if the first one is 0
	value  uint64 // of the digits, if they are not too many
	other  bool   // the word has letters, or is the fraction of a number
	escape byte   // if the last byte is part of an escape: '\\', ESC, or '[' after ESC; else 0
}

const esc = 0x1b

// The kinds of bytes.
const (
	digit  = iota
	escape // may begin an escape
	letter
	other
)

var kinds = func() (kinds [256]byte) {
	for c := range kinds {
		switch {
		case '0' <= c && c <= '9':
			kinds[c] = digit
		case c == '\\', c == esc:
			kinds[c] = escape
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			kinds[c] = letter
		default:
			kinds[c] = other
		}
	}
	return kinds
}()

// take takes a piece of the input.
func (a *annotator) take(b []byte) {
	w, from := a.word, 0
	for i := 0; i < len(b); i++ {
		if w.digits == 0 && w.escape == 0 { // most bytes pass here
			for i < len(b) && kinds[b[i]] >= letter {
				w.other = kinds[b[i]] == letter
				i++
			}
			if i == len(b) {
				break
			}
		}
		c, kind := b[i], kinds[b[i]]
		if (w.escape != 0 || kind == escape) && w.escaped(c) {
			kind = other
		}
		switch kind {
		case digit:
			if w.digits == 0 && c == '0' {
				w.digits = maxDigits
			}
			w.digits++
			w.value = 10*w.value + uint64(c-'0')
		case letter:
			w.other = true
		default:
			number := w.digits > 0 && !w.other
			if number && w.value >= a.least {
				a.write(b[from:i], w)
				from = i
			}
			w = word{other: c == '.' && number, escape: w.escape}
		}
	}
	a.write(b[from:], word{})
	a.word = w
}

// escaped follows an escape: for a new line or a tab, as in logs that are JSON, or for
// a colour on a terminal. It reports whether c is the rest of an escape. Then c is no
// part of a word.
func (w *word) escaped(c byte) bool {
	in := w.escape
	switch {
	case in == '[' && ' ' <= c && c < '@': // a parameter
		return true
	case in == esc && c == '[':
		w.escape = '['
		return true
	case c == esc, c == '\\' && in != '[':
		w.escape = c
	default:
		w.escape = 0
	}
	return in == '[' || in == '\\' && (c == 'n' || c == 'r' || c == 't')
}

// write writes text and, if w is an ID, its fields.
func (a *annotator) write(text []byte, w word) {
	if !a.json {
		a.out.Write(text)
	}
	id := snowflake.ID(w.value)
	if w.digits == 0 || w.digits > maxDigits || w.other || w.value > math.MaxInt64 || !a.plausible(id) {
		return
	}
	a.found = true
	if a.json {
		a.writeDecoded(a.layout, id)
		return
	}
	a.out.WriteString(" (" + a.layout.Decode(id).String() + ")")
}

// plausible reports whether id is of the layout and its time lies within the margins.
func (a *annotator) plausible(id snowflake.ID) bool {
	t := a.layout.Decode(id).Time
	return a.layout.Check(id) == nil && !t.Before(a.layout.Epoch.Time().Add(margin)) && !t.After(a.now().Add(margin))
}
