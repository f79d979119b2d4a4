package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/cli/input"
	"github.com/seed-5394e6b1/snowflake/internal/cli/texts"
)

// eachInput calls f with each file that args name, and with standard input for - or if there are no
// args. If standard error is a terminal, it shows the progress.
func (s *streams) eachInput(args []string, f func(name string, in io.Reader) error) error {
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

func (s *streams) oneInput(arg string, f func(name string, in io.Reader) error) error {
	name, in := "standard input", s.in
	if arg != "-" {
		file, err := os.Open(arg)
		if err != nil {
			return failed(err)
		}
		defer file.Close()
		name, in = arg, file
	}
	if s.watched && !isTerminal(in) {
		p := &progress{in: in, err: s.err, now: s.now, total: sizeOf(in)}
		defer p.end()
		in = p
	}
	if err := f(name, in); err != nil {
		if flushed := s.out.Flush(); flushed != nil {
			return failed(flushed) // not an error of the input
		}
		return failed(fmt.Errorf("%s: %w", name, err))
	}
	return nil
}

// sample returns the first words of the inputs that args name, without their headers. If there are
// more than most, it says so.
func (s *streams) sample(args []string, o input.Options, most int) (words []string, err error) {
	enough := errors.New("that is enough")
	var headers []string // words that may be headers
	none := ""           // the first line without a word, and why
	err = s.eachInput(args, func(_ string, in io.Reader) error {
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
		s.note(fmt.Sprintf("read a sample only: the first %d IDs", most))
		err = nil
	}
	_, parse := texts.Reader(words)
	for _, header := range headers {
		if _, notID := parse(header); notID == nil || len(words) == 0 {
			words = append(words, header)
		}
	}
	if err == nil && len(words) == 0 {
		err = failed(errors.New("the input has no IDs" + none))
	}
	return words, err
}

// areInputs reports whether the arguments name files or, as -, standard input, and are not IDs. A
// mixture is an error.
func areInputs(args []string) (bool, error) {
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

// namesInput refuses an empty command line. Standard input is read only if it is asked for.
func namesInput(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name IDs or files, or - for standard input")
	}
	return nil
}

// inputFlags defines the flags that say where in the input the IDs are.
func inputFlags(c *cobra.Command) *input.Options {
	var o input.Options
	c.Flags().StringVar(&o.Column, "column", "", "`NAME|N` of the column in CSV or a table: N counts from 1, if the columns have no names")
	c.Flags().StringVar(&o.Separator, "separator", "",
		"the `character` between columns, or tab; by default the one that occurs most in the first line")
	c.Flags().StringVar(&o.Field, "field", "", "the `NAME` of the field in JSON objects, one a line or in an array")
	return &o
}
