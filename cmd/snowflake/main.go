// Command snowflake issues and reads snowflake IDs.
//
//	snowflake new [-n N] [--decode] [--worker W | --dir DIR] [--datacenter D]
//	snowflake decode ID...             the fields of IDs
//	snowflake decode - <app.log        the same, in the text, after each ID
//	snowflake identify ID...           which layout do the IDs have?
//	snowflake range FROM TO            the range of the IDs of a span of time
//	snowflake layout [NAME|SPEC]       how many IDs a layout has, and until when
//	snowflake audit [FILE...]          duplicates, strangers, gaps, rates
//	snowflake worker --dir DIR         who has leased which worker ID?
//	snowflake whois --dir DIR ID...    who issued an ID?
//	snowflake watermark --dir DIR      an ID that no later ID is at or below
//	snowflake follows OLD NEW          may one layout follow another?
//	snowflake sql --layout L ENGINE    functions that decode IDs in a database
//	snowflake completion SHELL
//	snowflake version
//
// "snowflake help COMMAND" says more of each command. All commands print JSON with
// --json.
//
// The layout is DefaultLayout unless --layout, --unit, --epoch or --worker-last say
// otherwise. Flags may come before or after the other arguments.
//
// The exit status is 2 if the input was refused; then there is one line on standard
// error and nothing on standard output. It is 1 if something else went wrong, or if
// audit, whois or follows has bad news.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	s := &streams{in: stdin, out: bufio.NewWriterSize(stdout, 64<<10), err: stderr, color: colors(stdout)}
	root := rootCommand(s)
	root.SetArgs(append([]string{}, args...))
	err := root.Execute()
	if flushed := failed(s.out.Flush()); flushed != nil && (err == nil || errors.Is(err, errSaid)) {
		err = flushed
	}
	return report(stderr, err)
}

func init() { cobra.EnableCommandSorting = false }

// rootCommand returns the tool with all its commands, in the order in which people
// need them.
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
	root.InitDefaultVersionFlag()
	root.AddCommand(newCommand(s), decodeCommand(s), identifyCommand(s), rangeCommand(s), layoutCommand(s), auditCommand(s),
		workerCommand(s), whoisCommand(s), watermarkCommand(s), followsCommand(s), sqlCommand(s), layoutsTopic(),
		&cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, Run: func(*cobra.Command, []string) { fmt.Fprintln(s.out, "snowflake version", version()) }})
	root.SetFlagErrorFunc(flagError)
	refuseUnknownNames(root)
	return root
}

// refuseUnknownNames makes the commands that cobra adds refuse a wrong name. Otherwise they print a help, with status 0.
func refuseUnknownNames(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		case "completion": // its Args refuse every name that is no shell, if it can be run
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// flagError says of a flag's error what was meant, in the words of people.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
		if len(name) > 1 && c.Flags().Lookup(name) != nil {
			return fmt.Errorf("unknown flag -%s; did you mean --%s", name, name)
		}
	}
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	f, what := invalid.GetFlag(), "not a whole number"
	switch {
	case errors.Is(err, strconv.ErrRange):
		what = "out of range"
	case f.Value.Type() == "bool":
		what = "neither true nor false"
	}
	return fmt.Errorf("--%s %q is %s", f.Name, invalid.GetValue(), what)
}

// version says what the program was built from.
func version() string {
	v := fmt.Sprintf("(devel), %s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" {
		v = strings.Replace(v, "(devel)", info.Main.Version, 1)
	}
	return v
}

// report writes err as one line and returns the exit status for it. It writes
// nothing if the reader of standard output has gone away.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, errSaid) {
		fmt.Fprintf(stderr, "snowflake: %s\n", plainError(err))
	}
	if errors.As(err, new(failure)) {
		return exitFailure
	}
	return exitUsage
}

// noArgs and someArgs refuse wrong arguments in the words of a command that has no subcommands.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags only, got %q", c.Name(), args[0])
	}
	return nil
}

func someArgs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s takes %s", c.Name(), what)
		}
		return nil
	}
}

// oneLine writes an error as one line, also cobra's guess of what was meant.
var oneLine = strings.NewReplacer("\n\nDid you mean this?\n\t", "; did you mean ", "\n", `\n`, "\r", `\r`)

// plainError returns an error's text as one line, without the name of the package.
func plainError(err error) string {
	return oneLine.Replace(strings.TrimRight(strings.TrimPrefix(err.Error(), "snowflake: "), "\n"))
}
