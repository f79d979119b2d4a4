package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
)

// config holds the settings of the server.
type config struct {
	listen, admin, hosts, store    string
	drain, grace, watermark        time.Duration
	lease                          lease.Options
	generator                      snowflake.Options
	server                         server.Options
	policy                         string
	tokenFile, cert, key, clientCA string
	logFormat                      string
	accessLog                      bool
	maxConnections                 int
}

const defaultListen = "127.0.0.1:8080"

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: command.Short("serve"),
		Args:  commands.NoArgs,
	}
	c := new(config)
	p.define(c, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := c.check(); err != nil {
			return err
		}
		return p.serve(cmd.Context(), c)
	}
	return cmd
}

// define defines the flags of the server.
func (p *program) define(c *config, cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&c.listen, "listen", defaultListen, "`ADDRESS` to listen on, such as :8080 for all interfaces")
	fs.StringVar(&c.hosts, "hosts", "", "`NAMES`, separated by commas, under which a proxy may reach a server that listens on loopback,\n"+
		"besides localhost")
	fs.StringVar(&c.admin, "admin", "",
		"`ADDRESS` that serves only /healthz, /readyz, /metrics and gRPC's health, without token and TLS,\n"+
			"such as :8081: probes are answered there even when clients use all connections of --listen. Empty: none")
	p.storeFlag(&c.store, cmd)
	fs.StringVar(&c.lease.Owner, "owner", "", "`NAME` of this instance, shown to people; it gets its last worker ID again if that is free.\n"+
		"Empty: the host's name")
	fs.StringVar(&c.server.Fleet, "fleet", "",
		"`NAME` of the servers that share the store, a label of the metrics: set it if one job has several\n"+
			"fleets")
	leaseFlags(fs, &c.lease, "")
	fs.DurationVar(&c.lease.Window, "window", 0, fmt.Sprintf("how long IDs continue during an outage of the store. At most %v.\n"+
		"0: the store's default, such as 3s with file: and 2m with s3:", lease.MaxWindow))
	fs.DurationVar(&c.watermark, "watermark", 0,
		"how often to read the store's watermark, 1s or more, for the metric of its age and the header\n"+
			"Snowflake-Watermark. 0: only when a client reads it (GET /watermark)")
	fs.DurationVar(&c.lease.FloorEvery, "floor-every", 0,
		"how often to save a floor for the watermark, such as 1s, while a client reads it: the watermark\n"+
			"lags by as much. 0: three times in a window. At most a third of --window")
	fs.DurationVar(&c.lease.MaxClockError, "max-clock-error", 0,
		"at the start, wait until the kernel reports an error of the clock of at most this, such as 100ms.\n"+
			"0: do not wait")
	fs.StringVar(&c.lease.VMClock, "vmclock", "",
		"`DEVICE` that reports clones of the machine; if it cannot be used, the server does not start.\n"+
			"Empty: /dev/vmclock0, if it can be used. Linux only")
	layoutFlag(cmd, &c.generator.Layout)
	fs.StringVar(&c.policy, "policy", "wait:10ms", "the `POLICY` for a clock that goes back: wait:TIME, fail, clockseq or rewind:TICKS")
	fs.DurationVar(&c.generator.BorrowAhead, "borrow-ahead", 0, "how far timestamps may run ahead of the clock in a burst")
	command.DatacenterFlag(fs, &c.generator.Datacenter)
	fs.BoolVar(&c.generator.RandomStart, "random-start", false, "start each tick's sequence at a random value")
	fs.IntVar(&c.server.MaxIDs, "max-ids", 100_000, "how many IDs a call may ask for")
	fs.DurationVar(&c.server.MaxStreamTime, "max-stream-time", 10*time.Minute, "how long a stream may last")
	fs.IntVar(&c.server.MaxInFlight, "max-in-flight", 1024, "how much may be in flight: a request counts 1, and 1 more for each 1,024 IDs")
	fs.IntVar(&c.server.MaxPerClient, "max-per-client", 0,
		"how much of --max-in-flight one client's address may use; behind a proxy set it to --max-in-flight.\n"+
			"0: half")
	fs.IntVar(&c.maxConnections, "max-connections", 20_000,
		"how many connections may be open: others wait until one closes. It is also limited to \"ulimit -n\" - 50")
	fs.DurationVar(&c.server.Timeout, "timeout", 10*time.Second,
		"how long a call may take, and how long a slow client may take to send or read")
	fs.StringVar(&c.tokenFile, "token-file", "",
		"`FILE` of bearer tokens, one a line: each request must carry one of them. A token has 16 characters\n"+
			"or more. A client can have a name and a quota: TOKEN name=web ids-per-second=5000. It may take one\n"+
			"second's IDs at once, and no more in a call, unless burst=N follows. The file is read again when it changes")
	fs.StringVar(&c.cert, "tls-cert", "", "`FILE` of the certificate, in PEM. It is read again when it changes")
	fs.StringVar(&c.key, "tls-key", "", "`FILE` of the certificate's key, in PEM. It is read again when it changes")
	fs.StringVar(&c.clientCA, "tls-client-ca", "",
		"`FILE` of the authorities of clients' certificates, in PEM: each client needs a certificate.\n"+
			"It is read again when it changes")
	fs.DurationVar(&c.drain, "drain", 2*time.Second, "how long to continue serving after SIGTERM, until load balancers have noticed")
	fs.DurationVar(&c.grace, "grace", 15*time.Second, "how long requests may take to finish after --drain")
	fs.StringVar(&c.logFormat, "log-format", "text", "`text|json` of the log on standard error")
	fs.BoolVar(&c.accessLog, "access-log", false, "log each request, in some 150 bytes")
}

// leaseFlags defines the flags of the worker IDs that may be leased, and --new-store, whose usage
// ends with more.
func leaseFlags(fs *pflag.FlagSet, o *lease.Options, more string) {
	fs.IntVar(&o.First, "first", 0, "the first worker ID, a `NUMBER`, that may be leased, if lower ones are used by others, such as\n"+
		"the function of snowflake sql --generate")
	fs.IntVar(&o.Count, "count", 0, "how many worker IDs, from --first on, may be leased. 0: all up to the layout's last one")
	fs.BoolVar(&o.NewStore, "new-store", false, "the store has never been used: do not wait in case its entries were lost"+more)
}

// check returns an error that names the flag if a value cannot work.
func (c *config) check() error {
	for name, addr := range map[string]string{"listen": c.listen, "admin": c.admin} {
		if _, port, err := net.SplitHostPort(addr); (err != nil || port == "") && (name == "listen" || addr != "") {
			return command.Refused("--%s %q is not HOST:PORT, such as 127.0.0.1:8080", name, addr)
		}
	}
	if err := cmp.Or(
		command.AtLeast("window", c.lease.Window, 0), command.AtLeast("floor-every", c.lease.FloorEvery, 0), command.AtLeast("max-clock-error", c.lease.MaxClockError, 0),
		command.AtLeast("drain", c.drain, 0), command.AtLeast("grace", c.grace, 0), command.AtLeast("borrow-ahead", c.generator.BorrowAhead, 0),
		command.AtLeast("timeout", c.server.Timeout, time.Millisecond), command.AtLeast("max-stream-time", c.server.MaxStreamTime, time.Millisecond),
		command.AtLeast("max-ids", c.server.MaxIDs, 1), command.AtLeast("max-in-flight", c.server.MaxInFlight, 1),
		command.AtLeast("max-per-client", c.server.MaxPerClient, 0), command.AtLeast("max-connections", c.maxConnections, 1),
		command.AtLeast("first", c.lease.First, 0), command.AtLeast("count", c.lease.Count, 0),
	); err != nil {
		return err
	}
	if c.watermark != 0 && c.watermark < time.Second {
		return command.Refused("--watermark %v is neither 0 nor %v or more", c.watermark, time.Second)
	}
	if c.logFormat != "text" && c.logFormat != "json" {
		return command.Refused("--log-format %q is neither text nor json", c.logFormat)
	}
	if (c.cert == "") != (c.key == "") {
		return command.Refused("--tls-cert and --tls-key belong together: one of them is missing")
	}
	if c.clientCA != "" && c.cert == "" {
		return command.Refused("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return c.try()
}

// try makes a generator and a server with the options, and discards them, to report a wrong option
// before a worker ID is acquired.
func (c *config) try() error {
	var err error
	if c.generator.OnBackward, c.generator.RewindTicks, err = parsePolicy(c.policy); err != nil {
		return command.Refused("--policy: %w", err)
	}
	trial := c.generator
	trial.Clock = snowflake.SystemClock() // so that the process keeps no generator
	gen, err := snowflake.New(0, &trial)
	if r := (*snowflake.FieldRangeError)(nil); errors.As(err, &r) {
		return command.Refused("--datacenter: %w", err)
	}
	if err != nil {
		return command.Refused("--layout, --policy, --borrow-ahead or --random-start: %w", err)
	}
	if _, err := server.New(gen, &c.server); err != nil {
		return command.Refused("--max-in-flight, --max-per-client, --max-ids: %w", err)
	}
	if c.lease.Window != 0 {
		if err := command.AtLeast("window", c.lease.Window, max(time.Millisecond, c.generator.Layout.Unit)); err != nil {
			return err
		}
	}
	if c.lease.Window > lease.MaxWindow {
		return command.Refused("--window %v is over %v", c.lease.Window, lease.MaxWindow)
	}
	return nil
}

// parsePolicy reads a policy for a clock that goes back.
func parsePolicy(text string) (p snowflake.BackwardPolicy, ticks int, err error) {
	name, value, has := strings.Cut(text, ":")
	switch {
	case name == "fail" && !has:
		return snowflake.FailPolicy(), 0, nil
	case name == "clockseq" && !has:
		return snowflake.ClockSeqPolicy(), 0, nil
	case name == "wait":
		limit, err := time.ParseDuration(value)
		if err == nil && limit >= 0 {
			return snowflake.WaitPolicy(limit), 0, nil
		}
	case name == "rewind":
		ticks, err := strconv.Atoi(value)
		if err == nil && ticks > 0 {
			return snowflake.RewindPolicy(), ticks, nil
		}
	}
	return nil, 0, fmt.Errorf("invalid policy %q: want wait:TIME (such as wait:10ms), fail, "+
		"clockseq or rewind:TICKS (such as rewind:1000)", text)
}
