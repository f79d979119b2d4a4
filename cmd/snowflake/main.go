// Command snowflake issues and reads snowflake IDs.
//
//	snowflake new [-n N] [-decode] [-worker W | -lease DIR] [-datacenter D]
//	snowflake decode ID...            the fields of IDs
//	snowflake decode - <app.log       the same, in the text, after each ID
//	snowflake identify ID...          which layout are they of?
//	snowflake range FROM TO           the bounds of the IDs of a span of time
//	snowflake layout [NAME|SPEC]      what has a layout room for, and until when?
//	snowflake audit [FILE...]         duplicates, strangers, gaps, rates
//	snowflake worker -dir DIR         who has leased which worker ID?
//	snowflake whois -dir DIR ID...    who issued an ID?
//	snowflake follows OLD NEW         may one layout follow another?
//	snowflake sql -layout L ENGINE    functions that decode IDs in a database
//	snowflake completion SHELL
//	snowflake version
//
// "snowflake help COMMAND" says more of each. All of them print JSON with -json.
//
// The layout is the default one unless -layout, -unit, -epoch and -worker-last
// say otherwise. Flags may come before or after the other arguments.
//
// The exit status is 2 for input that was refused, with one line on standard
// error and nothing on standard output, and 1 when something else went wrong, or
// when the answer of audit, whois or follows is a bad one.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// failure is an error that is no fault of the arguments, such as one of reading
// or writing. Every other error is.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// errSaid is the failure of a command that has said all: its answer is no.
var errSaid = errors.New("the answer is no")

// failed makes a failure of an error, and nil of none.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// run runs the command that args name and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := streams{in: stdin, out: bufio.NewWriterSize(stdout, 64<<10), err: stderr, color: colors(stdout)}
	err := dispatch(s, args)
	if flushed := failed(s.out.Flush()); err == nil {
		err = flushed
	}
	return report(stderr, err)
}

// dispatch finds the command and runs it.
func dispatch(s streams, args []string) error {
	if len(args) == 0 {
		return errors.New("no command; snowflake help lists them")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(s, args[1:])
	}
	c, err := findCommand(args[0])
	if err != nil {
		return err
	}
	fs, do := c.flags()
	positional, err := parseArgs(fs, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		c.help(s.out)
		return nil
	case err != nil:
		return err
	}
	return do(s, positional)
}

// report writes err as one line and returns the exit status for it. A reader of
// standard output that has gone away is not worth a word.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, errSaid) {
		text := strings.TrimPrefix(err.Error(), "snowflake: ")
		fmt.Fprintf(stderr, "snowflake: %s\n", oneLine.Replace(text))
	}
	if errors.As(err, new(failure)) {
		return exitFailure
	}
	return exitUsage
}

var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)
