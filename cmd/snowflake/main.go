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
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, time.Now))
}

// run runs the command that args name and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, now func() time.Time) int {
	s := command.New("snowflake", stdin, stdout, stderr, now)
	return commands.Run(context.Background(), rootCommand(s), s, args)
}

//go:embed help
var help embed.FS

// rootCommand returns the tool and its commands, in the order in which users need them.
func rootCommand(s *command.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "snowflake",
		Short: "issue and read snowflake IDs",
	}
	root.PersistentFlags().BoolVar(&s.JSON, "json", false, "print JSON, for programs")
	commands.Add(root, s, help, []*cobra.Command{newCommand(s), decodeCommand(s), identifyCommand(s), rangeCommand(s), layoutCommand(s),
		auditCommand(s), followsCommand(s), sqlCommand(s)}, nil)
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

// namesInput refuses an empty command line. Standard input is read only if it is named.
func namesInput(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name IDs or files, or - for standard input")
	}
	return nil
}
