// Command snowflaked issues IDs to other processes, over HTTP and gRPC: see package server.
//
//	snowflaked                                     serve alone, on 127.0.0.1:8080
//	snowflaked --store redis://db --listen :8080   serve as one of several that share a store
//	snowflaked init --store redis://db             make a new store, once
//	snowflaked workers --store redis://db          who holds which worker ID?
//	snowflaked whois --store redis://db ID...      who issued an ID?
//	snowflaked audit --store redis://db FILE...    which IDs were issued without a lease?
//	snowflaked watermark --store redis://db        an ID below every ID issued from now on
//	snowflaked sql --generate --worker N           a column's default that issues IDs
//	snowflaked health                              a container's health check
//	snowflaked version                             which version is this?
//
// Without --store, the worker IDs are in a directory of the user. Each flag can also be set by an
// environment variable: --listen by SNOWFLAKED_LISTEN. "snowflaked --help" lists them.
//
// On SIGTERM or an interrupt, /readyz answers that the server is not ready, and the server
// continues to serve for --drain, until load balancers have noticed. Then it accepts no more
// connections, finishes the requests that have begun, releases its worker ID, and exits with
// status 0.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"
)

// version returns the version of the program's module, as the metric go_build_info does.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // also the status of whois if it finds no issuer
	exitUsage   = 2 // a flag or an argument was refused
)

// usageError is an error of the flags.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(command(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// commands are the commands of the program, except serving.
var commands = map[string]func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error{
	"init": initialize, "workers": workers, "whois": whois, "audit": auditIDs, "watermark": watermark, "sql": generateSQL,
	"health": health, "help": showHelp, "version": showVersion, "--version": showVersion,
}

func showHelp(ctx context.Context, _ []string, getenv func(string) string, stdout, stderr io.Writer) error {
	return serve(ctx, []string{"--help"}, getenv, stdout, stderr)
}

func showVersion(_ context.Context, _ []string, _ func(string) string, stdout, _ io.Writer) error {
	_, err := fmt.Fprintln(stdout, "snowflaked", version(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	return err
}

// command runs a command and returns the exit status.
func command(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	run, name := serve, ""
	if len(args) > 0 {
		if asked, ok := commands[args[0]]; ok {
			run, name, args = asked, " "+args[0], args[1:]
		}
	}
	err := run(ctx, args, getenv, stdout, stderr)
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if logged := (loggedError{}); !errors.As(err, &logged) {
		fmt.Fprintf(stderr, "snowflaked%s: %v\n", name, err)
	}
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}
