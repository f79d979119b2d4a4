// Command snowflake issues and reads snowflake IDs. The commands that need a store of leases are
// those of snowflaked.
//
//	snowflake new [-n N] [--decode] [--worker W] [--datacenter D]
//	snowflake decode ID...                   the fields of IDs
//	snowflake decode FILE|-                  the same, in a log, after each ID
//	snowflake identify ID...                 which layout do the IDs have?
//	snowflake range FROM TO                  the range of the IDs of a span of time
//	snowflake layout [NAME|SPEC]             the fields, capacity and end of a layout
//	snowflake audit [FILE...]                duplicates, gaps, rates and more
//	snowflake follows OLD NEW                may one layout follow another?
//	snowflake sql --layout L DATABASE        functions that decode IDs in a database
//	snowflake sql --generate --worker N postgres    a column's default that issues IDs
//	snowflake completion SHELL
//
// "snowflake help COMMAND" explains a command. All commands print JSON with --json. The layout is
// DefaultLayout unless --layout names another. Flags may come before or after the other arguments.
//
// The exit status is 2 if an argument was refused; then standard output is empty. It is 1 after
// another error, and if audit finds a fault or follows answers no. Each command's help explains its
// exit statuses.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/internal/command"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, time.Now))
}

// run runs the command that args name and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, now func() time.Time) int {
	s := command.New("snowflake", stdin, stdout, stderr, now)
	root := rootCommand(s)
	for _, c := range root.Commands() { // a shell completes the commands that run
		c.Hidden = c.GroupID == others && len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	}
	root.SetArgs(append([]string{}, args...))
	return s.Exit(root.Execute())
}

func init() { cobra.EnableCommandSorting = false }

// The groups of commands in the help.
const own, others = "own", "others"

// rootCommand returns the tool and its commands, in the order in which users need them.
func rootCommand(s *command.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "snowflake",
		Short: "issue and read snowflake IDs",
		Long: `Issues and reads snowflake IDs, without a store. The other program, snowflaked, serves
IDs, and has the commands that need the store of the leases. Its commands new, audit
and sql do the same as those here, and use the leases, too.`,
		Version:       command.Built(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.PersistentFlags().BoolVar(&s.JSON, "json", false, "print JSON, for programs")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddGroup(&cobra.Group{ID: own, Title: "Commands:"}, &cobra.Group{ID: others, Title: "Other commands of snowflaked:"})
	root.SetHelpCommandGroupID(own)
	root.SetCompletionCommandGroupID(own)
	root.AddCommand(newCommand(s), decodeCommand(s), identifyCommand(s), rangeCommand(s), layoutCommand(s), auditCommand(s),
		followsCommand(s), sqlCommand(s))
	for _, c := range root.Commands() {
		c.GroupID = own
		c.Flags().SortFlags = false
		c.Long += command.Statuses(statuses[c.Name()])
	}
	for _, o := range s.Others() {
		root.AddCommand(&cobra.Command{Use: o.Name, Short: o.Short, GroupID: others, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return o }})
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		c, rest, err := root.Find(args)
		switch {
		case err != nil:
			return err
		case c.GroupID == others:
			return c.RunE(c, rest)
		}
		return cobra.NoArgs(c, rest)
	}
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	for _, shell := range completion.Commands() {
		shell.Args = noArgs
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return command.FlagError(root.Name(), c.Name(), err) })
	return root
}

// both returns an error if a command does not have two arguments, whose names are in names.
func both(command, names string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("%s needs two arguments, %s; got %d", command, names, len(args))
		}
		return nil
	}
}

// statuses has the conditions of each command's exit statuses 0, 1 and 2. An empty text stands for
// the usual condition.
var statuses = map[string][3]string{
	"new":    {"all IDs were printed", "some were not, for example because the time of the layout has run out"},
	"decode": {"", "a file cannot be read", "an argument is wrong, or not an ID of the layout"},
	"identify": {"there is an answer, even if no layout is likely", "the input cannot be read, or is empty",
		"an argument is wrong, or no form fits most of the texts"},
	"range":   {"", "", "an argument is wrong, or the layout has no such time"},
	"layout":  {"", "", "there is no such layout"},
	"audit":   {"nothing is wrong", "something is, or there are no IDs, or the input cannot be read"},
	"follows": {"the answer is yes", "the answer is no"},
	"sql":     {"", "", "there is no such database, or SQL cannot count the layout's ticks"},
}

// namesInput refuses an empty command line. Standard input is read only if it is named.
func namesInput(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name IDs or files, or - for standard input")
	}
	return nil
}

func noArgs(c *cobra.Command, args []string) error { return command.NoArgs(c.Name(), args) }
