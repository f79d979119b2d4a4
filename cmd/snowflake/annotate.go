package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// margin is how far from the epoch a plausible ID is at least, and how far from
// now at most.
const margin = 24 * time.Hour

// maxDigits is the length of the largest ID.
const maxDigits = 19

// annotate copies in to out and puts the fields behind every ID. It writes each
// byte before it waits for the next, whatever that will say about it.
func annotate(out *bufio.Writer, in io.Reader, l snowflake.Layout, now func() time.Time) error {
	a := annotator{out: out, layout: l, now: now}
	r := bufio.NewReader(in)
	for {
		if r.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		c, err := r.ReadByte()
		if err == io.EOF {
			a.endWord()
			return out.Flush()
		}
		if err != nil {
			return err
		}
		a.next(c)
	}
}

// annotator follows the words of its input. A word is a run of ASCII letters
// and digits, so that an ID is a word of digits only.
type annotator struct {
	out    *bufio.Writer // remembers its errors until it is flushed
	layout snowflake.Layout
	now    func() time.Time

	digits  []byte // those of the word, up to one more than an ID can have
	letters bool   // the word has letters, or is the fraction of a number
	escape  byte   // what the byte is part of: '\\', ESC, or '[' behind it; else 0
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
	a.out.WriteByte(c)
}

// escaped reports whether c is the rest of an escape for a new line or a tab, as
// logs in JSON have them, or of one that colours the text on a terminal. It is
// no part of a word then.
func (a *annotator) escaped(c byte) bool {
	const esc = 0x1b
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

// endWord puts the fields behind the word if it is an ID. ParseID would refuse
// leading zeros as well, but times have so many of them that the errors it makes
// would take most of the time.
func (a *annotator) endWord() {
	if len(a.digits) > 0 && a.digits[0] != '0' && !a.letters {
		id, err := parseID(a.layout, string(a.digits))
		if err == nil && a.plausible(id) {
			fmt.Fprintf(a.out, " (%v)", a.layout.Decode(id))
		}
	}
	a.digits, a.letters = a.digits[:0], false
}

// plausible reports whether id's time is one at which it may have been issued.
func (a *annotator) plausible(id snowflake.ID) bool {
	t := a.layout.Decode(id).Time
	return !t.Before(a.layout.Epoch.Time().Add(margin)) && !t.After(a.now().Add(margin))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
