// Package commands makes the programs snowflake and snowflaked of their commands. It is not for
// other programs.
package commands

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func init() { cobra.EnableCommandSorting = false }

// The groups of commands in the help.
const own, others = "own", "others"

//go:embed *.txt
var parts embed.FS

// part matches a line of a command's help that stands for a part of both programs' help.
var part = regexp.MustCompile(`(?m)^\{(\w+)\}$`)

// read returns the text of a file.
func read(files fs.FS, name string) string {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // the files are in the program
	}
	return strings.TrimSpace(string(text))
}

// Add adds to a program's root command the program's own commands, the topics of its help, and the
// names of the other program's commands. The file help/NAME.txt of help explains the command NAME.
func Add(root *cobra.Command, s *command.Streams, help fs.FS, all, topics []*cobra.Command) {
	root.Version = command.Built()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return command.FlagError(root.Name(), c.Name(), err) })
	root.AddGroup(&cobra.Group{ID: own, Title: "Commands:"}, &cobra.Group{ID: others, Title: "Other commands of " + s.OtherProgram() + ":"})
	root.SetHelpCommandGroupID(own)
	root.SetCompletionCommandGroupID(own)
	for _, c := range all {
		c.GroupID = own
		c.Flags().SortFlags = false
	}
	root.AddCommand(append(all, topics...)...)
	for _, c := range append(root.Commands(), root) {
		c.Long = part.ReplaceAllStringFunc(read(help, "help/"+c.Name()+".txt"), func(line string) string {
			return read(parts, strings.Trim(line, "{}")+".txt")
		})
	}
	for _, o := range s.Others() {
		root.AddCommand(&cobra.Command{Use: o.Name, Short: o.Short, GroupID: others, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return o }})
	}
	root.InitDefaultHelpCmd()
	helper, _, _ := root.Find([]string{"help"})
	helper.Args = func(_ *cobra.Command, args []string) error {
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
		shell.Args = NoArgs
	}
}

// Run runs the command that args name, and returns the exit status.
func Run(ctx context.Context, root *cobra.Command, s *command.Streams, args []string) int {
	for _, c := range root.Commands() { // a shell completes the commands that run
		c.Hidden = c.GroupID == others && len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	}
	root.SetArgs(append([]string{}, args...)) // for nil, cobra would take os.Args
	return s.Exit(root.ExecuteContext(ctx))
}

// NoArgs refuses arguments besides flags.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments besides flags, got %q; a command comes before its flags", c.Name(), command.Harmless(args[0]))
}

// Files lets a shell complete the names of files.
func Files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// LayoutFlag defines --layout. help is the command that explains layouts.
func LayoutFlag(c *cobra.Command, l *snowflake.Layout, help string) {
	*l = snowflake.DefaultLayout()
	c.Flags().Func("layout", "`NAME|SPEC` of the layout, such as twitter or 41/10/12: see "+help, func(text string) (err error) {
		*l, err = texts.Layout(text)
		return err
	})
	_ = c.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions(texts.LayoutNames(), cobra.ShellCompDirectiveNoFileComp))
}
