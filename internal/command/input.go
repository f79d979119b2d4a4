package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed-5394e6b1/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// EachInput calls f with each file that args name. The name - is standard input, which is also read
// if there are no args. If standard error is a terminal, it shows the progress.
func (s *Streams) EachInput(args []string, f func(name string, in io.Reader) error) error {
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, arg := range args {
		if err := s.oneInput(arg, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *Streams) oneInput(arg string, f func(name string, in io.Reader) error) error {
	name, in := "standard input", s.In
	if arg != "-" {
		file, err := os.Open(arg)
		if err != nil {
			return Failed(err)
		}
		defer file.Close()
		name, in = arg, file
	}
	if s.Watched && !isTerminal(in) {
		p := &progress{in: in, err: s.Err, now: s.Now, total: sizeOf(in)}
		defer p.end()
		in = p
	}
	if err := f(name, in); err != nil {
		if flushed := s.Out.Flush(); flushed != nil {
			return Failed(flushed) // not an error of the input
		}
		return Failed(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

// Sample returns the first words of the inputs that args name, without headers: at most most of
// them. If there are more, it writes a note.
func (s *Streams) Sample(args []string, o input.Options, most int) (words []string, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	enough := errors.New("that is enough")
	var headers []string // words that may be headers
	none := ""           // the first line without a word, and the reason
	err = s.EachInput(args, func(_ string, in io.Reader) error {
		_, err := input.Read(in, o, func(w input.Word) error {
			switch {
			case len(words) == most:
				return enough
			case w.Err == nil && w.First && input.IsLetter(w.Text[0]):
				headers = append(headers, w.Text)
			case w.Err == nil:
				words = append(words, w.Text)
			case none == "":
				none = fmt.Sprintf(": line %d: %v", w.Line, w.Err)
			}
			return nil
		})
		return err
	})
	if errors.Is(err, enough) {
		s.Note("read a sample only: the first %d IDs", most)
		err = nil
	}
	_, parse := texts.Reader(words)
	for _, header := range headers {
		if _, notID := parse(header); notID == nil || len(words) == 0 {
			words = append(words, header)
		}
	}
	if err == nil && len(words) == 0 {
		err = Failed(errors.New("the input has no IDs" + none))
	}
	return words, err
}

// AreInputs reports whether the arguments name files or, as -, standard input, and are not IDs. A
// mixture is an error.
func AreInputs(args []string) (bool, error) {
	n := 0
	for _, arg := range args {
		info, err := os.Stat(arg)
		if _, notID := texts.IDs([]string{arg}); arg == "-" || notID != nil && err == nil && !info.IsDir() {
			n++
		}
	}
	if n > 0 && n < len(args) {
		return false, errors.New("some arguments are files or -, and some are not: name either files or IDs")
	}
	return n > 0, nil
}
