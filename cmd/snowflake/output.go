package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
)

// streams is what a command reads and writes. A command need not look at the
// errors of out: it keeps the first one, and run finds it when it flushes.
type streams struct {
	in  io.Reader
	out *bufio.Writer
	err io.Writer

	json  bool // print JSON
	color bool // out is a terminal that shows colours
}

// writeJSON writes v as one line.
func (s streams) writeJSON(v any) error {
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// The colours, as terminals number them.
const (
	bold  = "1"
	red   = "31"
	green = "32"
	faint = "2"
)

// paint returns text in a colour, if there are colours.
func (s streams) paint(color, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colors reports whether w shows colours: it is a terminal, and nobody asked it
// not to (NO_COLOR).
func colors(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// isTerminal reports whether w is a terminal, or another device of characters.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
