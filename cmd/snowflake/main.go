// Command snowflake issues and reads snowflake IDs.
//
//	snowflake new [-n N] [-decode] [-worker W | -dir DIR] [-datacenter D]
//	snowflake decode ID...            the fields of IDs
//	snowflake decode - <app.log       the same, in the text, after each ID
//	snowflake identify ID...          which layout do the IDs have?
//	snowflake range FROM TO           the range of the IDs of a span of time
//	snowflake layout [NAME|SPEC]      how many IDs a layout has, and until when
//	snowflake audit [FILE...]         duplicates, strangers, gaps, rates
//	snowflake worker -dir DIR         who has leased which worker ID?
//	snowflake whois -dir DIR ID...    who issued an ID?
//	snowflake follows OLD NEW         may one layout follow another?
//	snowflake sql -layout L ENGINE    functions that decode IDs in a database
//	snowflake completion SHELL
//	snowflake version
//
// "snowflake help COMMAND" says more of each command. All commands print JSON with
// -json.
//
// The layout is DefaultLayout unless -layout, -unit, -epoch or -worker-last say
// otherwise. Flags may come before or after the other arguments.
//
// The exit status is 2 if the input was refused; then there is one line on standard
// error and nothing on standard output. It is 1 if something else went wrong, or if
// audit, whois or follows has bad news.
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

// failure is an error that the arguments did not cause: for example, a read or a
// write failed. The arguments caused every other error.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// errSaid is the failure of a command whose answer is no. Its output says so
// already.
var errSaid = errors.New("the answer is no")

// failed returns err as a failure, or nil if err is nil.
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
	if flushed := failed(s.out.Flush()); flushed != nil && (err == nil || errors.Is(err, errSaid)) {
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

// report writes err as one line and returns the exit status for it. It writes
// nothing if the reader of standard output has gone away.
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
