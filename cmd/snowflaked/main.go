// Command snowflaked issues IDs to other processes, over HTTP and gRPC (see package server), and
// has the commands that need the store of the leases.
//
//	snowflaked                                     serve alone, on 127.0.0.1:8080
//	snowflaked --store redis://db --listen :8080   serve as one of several that share a store
//	snowflaked init --store redis://db             make a new store, once
//	snowflaked new --store file:DIR                IDs in a terminal, under a lease
//	snowflaked workers --store redis://db          who holds which worker ID?
//	snowflaked whois --store redis://db ID...      who issued an ID?
//	snowflaked watermark --store redis://db        every ID issued later is greater
//	snowflaked audit --store redis://db FILE...    which IDs were issued without a lease?
//	snowflaked sql --generate --worker N           a column's default that issues IDs
//	snowflaked health                              a container's health check
//	snowflaked version                             which version is this?
//
// Without --store, the worker IDs are in a directory of the user. Each flag without a short form
// can also be set by an environment variable, such as --listen by SNOWFLAKED_LISTEN. "snowflaked
// help COMMAND" lists a command's flags; without a command, snowflaked serves. "snowflaked help
// urls" explains the URLs of stores.
//
// On SIGTERM or an interrupt, /readyz reports that the server is not ready, and the server
// continues to serve for --drain, while load balancers notice. Then it accepts no more connections,
// finishes the requests that have begun, releases its worker ID, and exits with status 0. A second
// signal ends it at once; then its worker ID stays unused until the window has ended.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr))
}

// run runs a command and returns the exit status.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{command.New("snowflaked", stdin, stdout, stderr, time.Now), lookup}
	root := p.rootCommand()
	// Without a command, it serves.
	if len(args) == 0 || strings.HasPrefix(args[0], "-") && !slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0]) {
		args = append([]string{"serve"}, args...)
	}
	return commands.Run(ctx, root, p.Streams, args)
}

// program has the streams and the environment of the commands.
type program struct {
	*command.Streams
	lookup func(variable string) (value string, isSet bool)
}

func init() { cobra.MousetrapHelpText = "" } // on Windows, a double click starts the server

//go:embed help
var help embed.FS

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "snowflaked",
		Short: "issue IDs to other processes",
	}
	all := []*cobra.Command{p.serveCommand(), p.initCommand(), p.newCommand(), p.workersCommand(), p.whoisCommand(), p.watermarkCommand(),
		p.auditCommand(), p.sqlCommand(), p.healthCommand(), p.versionCommand()}
	for _, c := range all {
		c.PreRunE = func(c *cobra.Command, _ []string) error { return p.setFromEnvironment(c.Flags()) }
		do := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			err := do(c, args)
			if command.IsRefused(err) {
				return err
			}
			return command.Failed(err)
		}
	}
	commands.Add(root, p.Streams, help, all, []*cobra.Command{
		{Use: "urls", Short: "How a URL names a store"}, {Use: "layouts", Short: "How --layout names a layout"}})
	return root
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  commands.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, "snowflaked", command.Built())
			return err
		},
	}
}

// variable returns the environment variable of a flag.
func variable(name string) string {
	return "SNOWFLAKED_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// setFromEnvironment sets the flags that are not among the arguments. Flags with a short form have
// no variable, because only people use them.
func (p *program) setFromEnvironment(fs *pflag.FlagSet) (err error) {
	fs.VisitAll(func(f *pflag.Flag) {
		v, isSet := p.lookup(variable(f.Name))
		if f.Changed || f.Shorthand != "" || err != nil {
			return
		}
		if v == "" { // with the default store, each host would have a store of its own, and IDs would repeat
			if isSet && f.Name == "store" {
				err = command.Refused("the environment variable %s is empty: name a store, or unset it", variable(f.Name))
			}
			return
		}
		if e := fs.Set(f.Name, v); e != nil {
			err = command.FlagError("snowflaked", "", fmt.Errorf("--%s: the environment variable %s=%q: %w", f.Name, variable(f.Name), v,
				errors.Unwrap(e)))
		}
	})
	return err
}
