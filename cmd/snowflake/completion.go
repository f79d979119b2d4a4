package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/seed-5394e6b1/snowflake/internal/layouts"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

// commandCompletion is made by a function, because completion lists all commands,
// and is one.
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
	help := completed{command: command{name: "help", summary: "say more of a command, or of layouts"}, values: []string{"layouts"}}
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

// bash returns a function that knows the words for each command.
func bash() string {
	var b strings.Builder
	b.WriteString("_snowflake() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n\tif [ \"$COMP_CWORD\" = 1 ]; then\n")
	all := completions()
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	fmt.Fprintf(&b, "\t\twords='%s'\n", strings.Join(names, " "))
	fmt.Fprintf(&b, "\telif [ \"$prev\" = -layout ]; then\n\t\twords='%s'\n", strings.Join(layoutNames(), " "))
	b.WriteString("\telse\n\t\tcase ${COMP_WORDS[1]} in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\t\t%s) words='%s' ;;\n", c.name, strings.Join(append(c.values, c.flagNames()...), " "))
	}
	b.WriteString("\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o default -F _snowflake snowflake\n")
	return b.String()
}

// zsh returns bash's function, for the completion of bash's kind that zsh has.
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
			line := fmt.Sprintf("%s -o %s -d %s", with, f.Name, quote(usage))
			if f.Name == "layout" {
				line += " -x -a " + quote(strings.Join(layoutNames(), " "))
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
