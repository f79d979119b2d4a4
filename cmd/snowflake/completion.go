package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/seed-5394e6b1/snowflake/internal/layouts"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

// commandCompletion is a function because completion is a command that lists all
// commands.
func commandCompletion() command {
	return command{
		name:     "completion",
		synopsis: []string{"bash|zsh|fish"},
		summary:  "print a script for a shell that completes commands and flags",
		about: `Prints a script for a shell, which then completes commands, flags, and the names
of layouts and databases:

  bash   source <(snowflake completion bash), in ~/.bashrc
  zsh    source <(snowflake completion zsh), in ~/.zshrc, after compinit
  fish   snowflake completion fish | source, in ~/.config/fish/config.fish
`,
		setup: setupCompletion,
	}
}

func setupCompletion(*flag.FlagSet) action {
	return func(s streams, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("completion takes one shell, got %d", len(args))
		}
		script, ok := map[string]func() string{"bash": bash, "zsh": zsh, "fish": fish}[args[0]]
		if !ok {
			return fmt.Errorf("unknown shell %q: want bash, zsh or fish", args[0])
		}
		if s.json {
			return s.writeJSON(map[string]string{"shell": args[0], "script": script()})
		}
		s.out.WriteString(script())
		return nil
	}
}

// completed is what can be completed.
type completed struct {
	command
	flags  []*flag.Flag
	values []string // of the arguments
}

func completions() []completed {
	var all []completed
	for _, c := range commands() {
		fs, _ := c.flags()
		this := completed{command: c}
		fs.VisitAll(func(f *flag.Flag) { this.flags = append(this.flags, f) })
		switch c.name {
		case "layout", "follows":
			this.values = layoutNames()
		case "sql":
			for _, e := range sqltext.Engines() {
				this.values = append(this.values, string(e))
			}
		case "completion":
			this.values = []string{"bash", "zsh", "fish"}
		}
		all = append(all, this)
	}
	help := completed{command: command{name: "help", summary: "say more about a command, or about layouts"}, values: []string{"layouts"}}
	for _, c := range commands() {
		help.values = append(help.values, c.name)
	}
	return append(all, help)
}

func layoutNames() (names []string) {
	for _, k := range layouts.All() {
		names = append(names, k.Name)
	}
	return names
}

func (c completed) flagNames() (names []string) {
	for _, f := range c.flags {
		names = append(names, "-"+f.Name)
	}
	return names
}

// takesValue reports whether a flag is followed by a value.
func takesValue(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

// takesDirectory reports whether the value of a flag is a directory.
func takesDirectory(f *flag.Flag) bool {
	kind, _ := flag.UnquoteUsage(f)
	return kind == "directory"
}

// bash returns a function that knows the words for each command. If a flag takes a
// value, it completes the value only if it is a layout or a directory. Bash splits
// words at a =, so the function takes -layout = twitter for a flag and its value.
func bash() string {
	var b strings.Builder
	b.WriteString(`_snowflake() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= flags=
	if [ "$cur" = = ]; then
		cur=
	elif [ "$prev" = = ]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	prev=${prev/#--/-}
	if [ "$COMP_CWORD" = 1 ]; then
`)
	all := completions()
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	fmt.Fprintf(&b, "\t\twords='%s'\n\telse\n\t\tcase ${COMP_WORDS[1]} in\n", strings.Join(names, " "))
	for _, c := range all {
		fmt.Fprintf(&b, "\t\t%s)\n\t\t\twords='%s' flags='%s'\n", c.name, strings.Join(c.values, " "), strings.Join(c.flagNames(), " "))
		c.bashValues(&b)
		b.WriteString("\t\t\t;;\n")
	}
	b.WriteString(`		esac
	fi
	case $cur in
	--*) flags=" $flags" words= flags=${flags// -/ --} ;;
	esac
	COMPREPLY=($(compgen -W "$words $flags" -- "$cur"))
}
complete -o default -F _snowflake snowflake
`)
	return b.String()
}

// bashValues writes how bash completes the values of the command's flags.
func (c completed) bashValues(b *strings.Builder) {
	var directories, others []string
	layout := false
	for _, f := range c.flags {
		switch {
		case f.Name == "layout":
			layout = true
		case takesDirectory(f):
			directories = append(directories, "-"+f.Name)
		case takesValue(f):
			others = append(others, "-"+f.Name)
		}
	}
	b.WriteString("\t\t\tcase $prev in\n")
	if layout {
		fmt.Fprintf(b, "\t\t\t-layout) words='%s' flags= ;;\n", strings.Join(layoutNames(), " "))
	}
	if len(directories) > 0 {
		fmt.Fprintf(b, "\t\t\t%s)\n\t\t\t\tlocal IFS=$'\\n'\n\t\t\t\tCOMPREPLY=($(compgen -d -- \"$cur\"))\n\t\t\t\treturn\n\t\t\t\t;;\n", strings.Join(directories, "|"))
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "\t\t\t%s) words= flags= ;;\n", strings.Join(others, "|"))
	}
	b.WriteString("\t\t\tesac\n")
}

// zsh returns bash's function, which zsh can run.
func zsh() string {
	return "autoload -Uz bashcompinit && bashcompinit\n" + bash()
}

// fish returns a line for each word.
func fish() string {
	var b strings.Builder
	b.WriteString("complete -c snowflake -e\n")
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	for _, c := range completions() {
		fmt.Fprintf(&b, "complete -c snowflake -f -n __fish_use_subcommand -a %s -d %s\n", c.name, quote(c.summary))
		with := fmt.Sprintf("complete -c snowflake -n '__fish_seen_subcommand_from %s'", c.name)
		if len(c.values) > 0 {
			fmt.Fprintf(&b, "%s -f -a %s\n", with, quote(strings.Join(c.values, " ")))
		}
		for _, f := range c.flags {
			_, usage := flag.UnquoteUsage(f)
			line := fmt.Sprintf("%s -o %s -l %s -d %s", with, f.Name, f.Name, quote(usage))
			switch {
			case f.Name == "layout":
				line += " -x -a " + quote(strings.Join(layoutNames(), " "))
			case takesDirectory(f):
				line += " -x -a '(__fish_complete_directories)'"
			case takesValue(f):
				line += " -x"
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
