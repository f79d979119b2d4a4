package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// margin bounds the time of a plausible ID: it is at least margin after the epoch, and at most
// margin after now.
const margin = 24 * time.Hour

// maxDigits is the length of the largest ID.
const maxDigits = 19

// annotate copies its input to its output, with the fields after every ID, and reports whether it
// found an ID. With --json it writes only the IDs, one object a line. Before it waits for more
// input, it writes everything that it has read but an unfinished word at the end.
func annotate(s *command.Streams, l snowflake.Layout) (found bool, err error) {
	a := annotator{Streams: s, layout: l, least: math.MaxInt64}
	begin := l.Epoch.Time().Add(margin)
	// A layout may last less than a day: then no ID is plausible.
	if least, _, err := l.Range(begin, begin); err == nil {
		a.least = least
	}
	buf := make([]byte, 256<<10)
	for held := 0; ; {
		n, err := s.In.Read(buf[held:])
		text := buf[:held+n]
		cut := bytes.LastIndexFunc(text, endsWord) + 1
		if err == io.EOF || cut == 0 && len(text) == len(buf) {
			cut = len(text) // a word of 256 KiB is cut
		}
		a.take(text[:cut])
		held = copy(buf, text[cut:])
		if err == io.EOF {
			return a.found, s.Out.Flush()
		}
		if err != nil {
			a.copy(buf[:held]) // not annotated: the number may be unfinished
		}
		if flushed := s.Out.Flush(); flushed != nil {
			return a.found, flushed
		}
		if err != nil {
			return a.found, err
		}
	}
}

// endsWord reports whether a character is part of no word, number or escape.
func endsWord(r rune) bool { return r <= ',' && r != esc }

const esc = 0x1b

// annotator writes its input with annotations. Its output remembers its errors until it is flushed.
type annotator struct {
	*command.Streams
	layout    snowflake.Layout
	least     snowflake.ID // the least plausible ID
	found     bool         // whether there was an ID
	ambiguous bool         // whether standard error has a note on words that have two forms
}

// special marks the bytes that may begin a number or an escape.
var special = func() (special [256]bool) {
	for _, c := range []byte("0123456789\\\x1b") {
		special[c] = true
	}
	return special
}()

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// take annotates text that does not end in the middle of a word.
func (a *annotator) take(b []byte) {
	from := 0    // the end of the text that was written
	begin := 0   // the end of the last escape, whose letters do not touch a number
	number := -1 // the end of the last whole number, which a fraction may follow
	for i := 0; ; {
		for i < len(b) && !special[b[i]] { // most bytes pass here
			i++
		}
		if i == len(b) {
			break
		}
		if !isDigit(b[i]) {
			i += escapeLen(b[i:])
			begin = i
			continue
		}
		start, value := i, uint64(0)
		for i < len(b) && isDigit(b[i]) {
			value = 10*value + uint64(b[i]-'0')
			i++
		}
		touched := start > begin && input.IsLetter(b[start-1]) || i < len(b) && input.IsLetter(b[i])
		fraction := start > 0 && b[start-1] == '.' && number == start-1
		if fraction {
			continue
		}
		if touched {
			for start > begin && isAlphanumeric(b[start-1]) {
				start--
			}
			for i < len(b) && isAlphanumeric(b[i]) {
				i++
			}
			readings := texts.InLog(prefixBefore(b[begin:start]), b[start:i])
			readings = slices.DeleteFunc(readings, func(r texts.Reading) bool { return !a.plausible(r.IDs[0]) })
			if len(readings) > 0 {
				a.copy(b[from:i])
				a.annotate(readings[0].IDs[0], readings[0].Form, readings[1:]...)
				from = i
			}
			continue
		}
		number = i
		if b[start] != '0' && i-start <= maxDigits && value <= math.MaxInt64 && a.plausible(snowflake.ID(value)) {
			a.copy(b[from:i])
			a.annotate(snowflake.ID(value), command.Decimal)
			from = i
		}
	}
	a.copy(b[from:])
}

func isAlphanumeric(c byte) bool { return isDigit(c) || input.IsLetter(c) }

// prefixBefore returns the prefix of a typed ID, with its underscore, at the end of b, or nil.
func prefixBefore(b []byte) []byte {
	const longest = 63 + 1
	start := len(b)
	for start > 0 && start > len(b)-longest && (b[start-1] == '_' || isDigit(b[start-1]) || 'a' <= b[start-1] && b[start-1] <= 'z') {
		start--
	}
	if start == len(b) || b[len(b)-1] != '_' || start > 0 && input.IsLetter(b[start-1]) {
		return nil
	}
	return b[start:]
}

// escapeLen returns the length of the escape at the start of b: a new line or a tab, as in logs
// that are JSON, or a colour of a terminal. The length of any other \ or ESC is 1.
func escapeLen(b []byte) int {
	if len(b) == 1 {
		return 1
	}
	switch c := b[1]; {
	case b[0] == '\\' && (c == 'n' || c == 'r' || c == 't'):
		return 2
	case b[0] == esc && c == '[':
		rest := bytes.TrimLeft(b[2:], "0123456789:;<=>?")
		n := len(b) - len(rest)
		if len(rest) > 0 && '@' <= rest[0] && rest[0] <= '~' {
			n++
		}
		return n
	}
	return 1
}

// copy writes text, unless --json asks for the IDs only.
func (a *annotator) copy(text []byte) {
	if !a.JSON {
		a.Out.Write(text)
	}
}

// annotate writes the fields of an ID and, if the word is not decimal, the ID and the word's form.
// It also writes the IDs that the word is in other forms: with --json once, to standard error.
func (a *annotator) annotate(id snowflake.ID, form string, others ...texts.Reading) {
	a.found = true
	others = slices.DeleteFunc(others, func(r texts.Reading) bool { return r.IDs[0] == id }) // a typed ID is base 32, too
	switch fields := a.layout.Decode(id).String(); {
	case a.JSON:
		a.WriteDecoded(a.layout, id, form)
		if len(others) > 0 && !a.ambiguous {
			a.ambiguous = true
			a.Note("words in %s may also be in %s: %d is then %d", form, others[0].Form, id, others[0].IDs[0])
		}
	case form == command.Decimal:
		a.Out.WriteString(" (" + fields + ")")
	default:
		fmt.Fprintf(a.Out, " (%v %s form=%q", id, fields, form)
		for _, o := range others {
			fmt.Fprintf(a.Out, ", or %v form=%q", o.IDs[0], o.Form)
		}
		a.Out.WriteString(")")
	}
}

// plausible reports whether id is of the layout and has a time within the margins.
func (a *annotator) plausible(id snowflake.ID) bool {
	return id >= a.least && a.layout.Check(id) == nil && !a.layout.Decode(id).Time.After(a.Now().Add(margin))
}
