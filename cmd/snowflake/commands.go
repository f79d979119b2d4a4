package main

import (
	"errors"
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

	// setup defines the command's flags, beside -json.
	setup func(fs *flag.FlagSet) action
}

// commands returns the commands in the order in which people need them. It is a
// function because help and completion are commands that list all commands.
func commands() []command {
	return []command{
		commandNew, commandDecode, commandIdentify, commandRange, commandLayout,
		commandAudit, commandWorker, commandWhois, commandFollows, commandSQL,
		commandCompletion(), commandVersion,
	}
}

func findCommand(name string) (command, error) {
	var names []string
	for _, c := range commands() {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	return command{}, fmt.Errorf("unknown command %q: want %s or help", name, strings.Join(names, ", "))
}

// flags returns the command's flags and its action. The flags print nothing.
func (c command) flags() (*flag.FlagSet, action) {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	do := c.setup(fs)
	asJSON := fs.Bool("json", false, "print JSON, for programs")
	return fs, func(s streams, args []string) error {
		s.json = *asJSON
		return do(s, args)
	}
}

// layoutFlags are the flags that "snowflake help layouts" explains for all commands.
var layoutFlags = map[string]bool{"layout": true, "unit": true, "epoch": true, "worker-last": true}

// help writes the command's help text.
func (c command) help(w io.Writer) {
	fmt.Fprintf(w, "usage:\n%s\n%s\nFlags, before or after the other arguments:\n", c.usage(), c.about)
	fs, _ := c.flags()
	layout := false
	fs.VisitAll(func(f *flag.Flag) {
		if layoutFlags[f.Name] {
			layout = true
			return
		}
		value, text := flag.UnquoteUsage(f)
		left := "-" + f.Name
		if value != "" {
			left += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			text += " (" + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  %-18s %s\n", left, text)
	})
	if layout {
		fmt.Fprintln(w, "  -layout, -unit, -epoch, -worker-last: see \"snowflake help layouts\"")
	}
}

// usage returns the ways to call the command, one a line.
func (c command) usage() string {
	var b strings.Builder
	for _, s := range c.synopsis {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  snowflake %s %s", c.name, s), " "))
	}
	return b.String()
}

// help answers "snowflake help", "snowflake help layouts" and "snowflake help
// COMMAND".
func help(s streams, args []string) error {
	switch {
	case len(args) == 0:
		s.out.WriteString(usage())
		return nil
	case len(args) > 1:
		return fmt.Errorf("help takes one command, got %d", len(args))
	case args[0] == "layouts":
		s.out.WriteString(aboutLayouts())
		return nil
	case args[0] == "help":
		return errors.New("help takes a command: \"snowflake help\" lists them")
	}
	c, err := findCommand(args[0])
	if err != nil {
		return err
	}
	c.help(s.out)
	return nil
}

// usage returns the tool's help text.
func usage() string {
	var b strings.Builder
	b.WriteString("snowflake issues and reads snowflake IDs.\n\nusage:\n  snowflake COMMAND [flags] [arguments]\n\ncommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-12s%s\n", c.name, c.summary)
	}
	b.WriteString("\n\"snowflake help COMMAND\" says more; \"snowflake help layouts\" explains layouts.\n")
	return b.String()
}
