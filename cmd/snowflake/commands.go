package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// action does a command's work once its flags are set.
type action func(s streams, args []string) error

// command is one of the tool's commands.
type command struct {
	name     string
	synopsis []string // what may follow the name
	summary  string   // for the list of commands
	about    string   // for the command's own help

	// setup defines the command's flags.
	setup func(fs *flag.FlagSet) action
}

var commands = []command{commandNew, commandDecode, commandLayout, commandRange, commandWorker}

func findCommand(name string) (command, error) {
	for _, c := range commands {
		if c.name == name {
			return c, nil
		}
	}
	return command{}, fmt.Errorf("unknown command %q: want new, decode, layout, range, worker or help", name)
}

// flags returns the command's flags, which print nothing by themselves.
func (c command) flags() (*flag.FlagSet, action) {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs, c.setup(fs)
}

// help writes the command's help text.
func (c command) help(w io.Writer) {
	fmt.Fprintf(w, "usage:\n%s\n%s\nFlags, before or behind the other arguments:\n", c.usage(), c.about)
	fs, _ := c.flags()
	fs.SetOutput(w)
	fs.PrintDefaults()
}

// usage returns the ways to call the command, one a line.
func (c command) usage() string {
	var b strings.Builder
	for _, s := range c.synopsis {
		fmt.Fprintf(&b, "  snowflake %s %s\n", c.name, s)
	}
	return b.String()
}

// help answers "snowflake help" and "snowflake help COMMAND".
func help(s streams, args []string) error {
	switch len(args) {
	case 0:
		s.out.WriteString(usage())
		return nil
	case 1:
		c, err := findCommand(args[0])
		if err != nil {
			return err
		}
		c.help(s.out)
		return nil
	}
	return fmt.Errorf("help takes one command, got %d", len(args))
}

// usage returns the tool's help text.
func usage() string {
	var b strings.Builder
	b.WriteString("snowflake issues and reads snowflake IDs.\n\nusage:\n")
	for _, c := range commands {
		b.WriteString(c.usage())
	}
	b.WriteString("\ncommands:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-8s%s\n", c.name, c.summary)
	}
	b.WriteString("\n\"snowflake help COMMAND\" says more, and lists the flags.\n")
	return b.String()
}
