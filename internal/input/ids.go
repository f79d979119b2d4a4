package input

import (
	"io"
	"strings"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// IDs reads the IDs of texts, in the form that most of the first words have.
type IDs struct {
	Add  func(id snowflake.ID, line int) error // takes an ID
	Skip func(why string, line int)            // takes a line without one

	Line    int      // the last line, counted through all texts
	Form    string   // the form of the IDs
	Headers []string // the headers that were skipped
	Nulls   int      // the number of NULLs that were skipped

	before int    // the number of lines of earlier texts
	held   []Word // the first words, until the form is known
	parse  func(string) (snowflake.ID, error)
}

// enough is the number of words that decide the form.
const enough = 1000

// Read reads a text.
func (r *IDs) Read(in io.Reader, o Options) error {
	r.before = r.Line
	n, err := Read(in, o, r.take)
	r.Nulls += n
	return err
}

func (r *IDs) take(w Word) error {
	w.Line += r.before
	r.Line = w.Line
	if r.parse != nil {
		return r.add(w)
	}
	if r.held = append(r.held, w); len(r.held) < enough {
		return nil
	}
	return r.Finish()
}

// Finish chooses the form, if it is not known yet, and adds the words that waited for it. It is
// called after the last text.
func (r *IDs) Finish() error {
	if r.parse != nil {
		return nil
	}
	var sample []string
	for _, w := range r.held {
		if w.Err == nil && (!w.First || len(r.held) == 1) { // the first may be a header
			sample = append(sample, w.Text)
		}
	}
	r.Form, r.parse = texts.Reader(sample)
	for _, w := range r.held {
		if err := r.add(w); err != nil {
			return err
		}
	}
	r.held = nil
	return nil
}

// IsLetter reports whether a character is a letter of ASCII.
func IsLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func (r *IDs) add(w Word) error {
	if w.Err != nil {
		r.Skip(w.Err.Error(), w.Line)
		return nil
	}
	id, err := r.parse(w.Text)
	switch {
	case err == nil:
		return r.Add(id, w.Line)
	case w.First && IsLetter(w.Text[0]):
		r.Headers = append(r.Headers, w.Text)
	default:
		r.Skip(strings.TrimPrefix(err.Error(), "snowflake: "), w.Line)
	}
	return nil
}
