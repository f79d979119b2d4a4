// Command snowflake issues and reads snowflake IDs.
//
//	snowflake new [-n N] [-decode] [-worker W | -lease DIR] [-datacenter D]
//	snowflake decode ID...
//	snowflake decode - <app.log
//	snowflake layout [NAME|SPEC]
//	snowflake range FROM TO
//	snowflake worker -dir DIR
//
// New prints new IDs, one a line. With -lease it takes its worker ID from a
// directory, and no other invocation with that directory issues the same IDs.
// Without, it is for trying things out: two invocations at the same time with
// the same -worker, or one after the other within a tick of the layout, can issue
// the same IDs.
//
// Decode prints each ID followed by its fields. With "-" for an ID it copies
// standard input to standard output and puts the fields, in parentheses, behind
// every ID that it finds there. "snowflake help decode" says what counts as one.
//
// Layout draws the bits of a layout and says how many workers and IDs it has
// room for, and until when. Without a name it lists the layouts that have one.
//
// Range prints the two IDs that bound the IDs stamped from FROM up to, but not
// including, TO, for WHERE id >= lo AND id < hi.
//
// Worker lists who has leased which worker ID from a directory, and until when.
//
// The layout is the default one unless -layout, -unit, -epoch and -worker-last
// say otherwise. Flags may come before or after the other arguments.
//
// The exit status is 2 for input that was refused, with one line on standard
// error and nothing on standard output, and 1 when something else went wrong.
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

// streams is what a command reads and writes. A command need not look at the
// errors of out: it keeps the first one, and run finds it when it flushes.
type streams struct {
	in  io.Reader
	out *bufio.Writer
	err io.Writer
}

// failure is an error that is no fault of the arguments, such as one of reading
// or writing. Every other error is.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// failed makes a failure of an error, and nil of none.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// run runs the command that args name and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := streams{in: stdin, out: bufio.NewWriter(stdout), err: stderr}
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
	if !errors.Is(err, syscall.EPIPE) {
		text := strings.TrimPrefix(err.Error(), "snowflake: ")
		fmt.Fprintf(stderr, "snowflake: %s\n", oneLine.Replace(text))
	}
	if errors.As(err, new(failure)) {
		return exitFailure
	}
	return exitUsage
}

var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)
