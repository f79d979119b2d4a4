// Command snowflake issues and reads snowflake IDs.
//
//	snowflake new [-n N] [--decode] [--worker W | --store file:DIR] [--datacenter D]
//	snowflake decode ID...                   the fields of IDs
//	snowflake decode FILE|-                  the same, in a log, after each ID
//	snowflake identify ID...                 which layout do the IDs have?
//	snowflake range FROM TO                  the range of the IDs of a span of time
//	snowflake layout [NAME|SPEC]             how many IDs a layout has, and until when
//	snowflake audit [--store file:DIR] [FILE...]   duplicates, IDs without a lease, gaps, rates
//	snowflake workers --store file:DIR       who has leased which worker ID?
//	snowflake whois --store file:DIR ID...   who issued an ID?
//	snowflake watermark --store file:DIR     an ID below every ID issued from now on
//	snowflake follows OLD NEW                may one layout follow another?
//	snowflake sql --layout L DATABASE        functions that decode IDs in a database
//	snowflake sql --generate --worker W postgres    a column's default that issues IDs
//	snowflake completion SHELL
//
// "snowflake help COMMAND" says more about each command. All commands print JSON with --json. The
// layout is DefaultLayout unless --layout names another. Flags may come before or after the other
// arguments.
//
// The exit status is 2 if an argument was refused; then nothing is on standard output. It is 1 if
// something else went wrong, or if audit, whois, watermark or follows has bad news. Each command's
// help says what its exit statuses mean.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, time.Now))
}

// streams are the inputs and outputs of a command. A command need not check the errors of out: out
// keeps its first error, and run finds it when it flushes.
type streams struct {
	in  io.Reader
	out *bufio.Writer
	err io.Writer
	now func() time.Time

	json    bool // print JSON
	watched bool // standard error is a terminal
	shows   bool // standard output is a terminal
}

// writeJSON writes v as one line.
func (s *streams) writeJSON(v any) error { return failed(json.NewEncoder(s.out).Encode(v)) }

// note writes one line for people to standard error.
func (s *streams) note(text string) { fmt.Fprintf(s.err, "snowflake: %s\n", text) }

// failure is an error that the arguments did not cause, such as that of a failed read or write. All
// other errors are caused by the arguments.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// failed returns err as a failure, or nil if err is nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// errSaid is the failure of a command whose answer is no, and whose output has already said so.
var errSaid = failed(errors.New("the answer is no"))

// run runs the command that args name and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, now func() time.Time) int {
	s := &streams{
		in: stdin, out: bufio.NewWriterSize(stdout, 64<<10), err: stderr, now: now,
		watched: isTerminal(stderr), shows: isTerminal(stdout),
	}
	root := rootCommand(s)
	root.SetArgs(append([]string{}, args...))
	err := root.Execute()
	if flushed := s.out.Flush(); flushed != nil && (err == nil || errors.Is(err, errSaid)) {
		err = failed(flushed)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE): // the reader of standard output has gone away
	case !errors.Is(err, errSaid):
		s.note(strings.TrimPrefix(err.Error(), "snowflake: "))
	}
	if errors.As(err, new(failure)) {
		return exitFailure
	}
	return exitUsage
}

func init() { cobra.EnableCommandSorting = false }

// rootCommand returns the tool with all its commands, in the order in which users need them.
func rootCommand(s *streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "snowflake",
		Short:         "issue and read snowflake IDs",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.PersistentFlags().BoolVar(&s.json, "json", false, "print JSON, for programs")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(newCommand(s), decodeCommand(s), identifyCommand(s), rangeCommand(s), layoutCommand(s), auditCommand(s),
		workersCommand(s), whoisCommand(s), watermarkCommand(s), followsCommand(s), sqlCommand(s))
	for _, c := range root.Commands() {
		c.Long += exitStatuses(c.Name())
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if m := negative.FindStringSubmatch(err.Error()); m != nil {
			return fmt.Errorf("%s is negative, and no ID is", m[1])
		}
		return err
	})
	return root
}

// negative matches cobra's error for a negative number.
var negative = regexp.MustCompile(`^unknown shorthand flag: '[0-9]' in (-[0-9]+)$`)

// statuses say when the exit status of a command is 0, 1 and 2. An empty text stands for the usual
// one.
var statuses = map[string][3]string{
	"new":    {"all IDs were printed", "some were not, for example because of a signal or the store"},
	"decode": {"", "a file cannot be read", "an argument is wrong, or not an ID of the layout"},
	"identify": {"there is an answer, even if no layout is likely", "the input cannot be read, or is empty",
		"an argument is wrong, or no form fits most of the texts"},
	"range":     {"", "", "an argument is wrong, or the layout has no such time"},
	"layout":    {"", "", "there is no such layout"},
	"audit":     {"nothing is wrong", "something is, or there are no IDs, or the input cannot be read"},
	"workers":   {"", "there is no such directory, or a record cannot be read"},
	"whois":     {"each ID has an issuer", "one has none or it was forgotten, or the directory cannot be read"},
	"watermark": {"no holder keeps the watermark back", "a holder does, or the directory cannot be read"},
	"follows":   {"the answer is yes", "the answer is no"},
	"sql": {"", "a process holds the worker ID, or the directory cannot be read",
		"there is no such database, or SQL cannot count the layout's ticks"},
}

// exitStatuses returns the part of a command's help that explains its exit statuses.
func exitStatuses(name string) string {
	usual := [3]string{"the answer was printed", "standard output cannot be written", "an argument is wrong"}
	text := "\n\nThe exit status is"
	for i, says := range statuses[name] {
		text += fmt.Sprintf("\n  %d  if %s", i, cmp.Or(says, usual[i]))
	}
	return text
}

// version says what the program was built from.
func version() string {
	v := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s, %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
