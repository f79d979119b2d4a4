package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
)

// streams is what a command reads and writes. A command need not look at the
// errors of out: out keeps its first error, and run finds it when it flushes.
type streams struct {
	in  io.Reader
	out *bufio.Writer
	err io.Writer

	json  bool // print JSON
	color bool // out is a terminal that shows colours
}

// writeJSON writes v as one line.
func (s *streams) writeJSON(v any) error {
	e := json.NewEncoder(s.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Colours and styles, as terminals number them.
const (
	bold  = "1"
	red   = "31"
	green = "32"
	faint = "2"
)

// paint returns text in a colour, if there are colours.
func (s *streams) paint(color, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colors reports whether w shows colours: if it is a terminal, and NO_COLOR is not
// set.
func colors(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// isTerminal reports whether w is a terminal, or another character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
