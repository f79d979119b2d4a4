package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/internal/command"
)

// healthTime bounds the request.
const healthTime = 3 * time.Second

func (p *program) healthCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "health",
		Short: command.Short("health"),
		Args:  commands.NoArgs,
	}
	fs := c.Flags()
	listen := fs.String("listen", defaultListen, "`ADDRESS` of the server, as the server has it")
	admin := fs.String("admin", "", "`ADDRESS` of its probes, as the server has it. Empty: ask at --listen")
	cert := fs.String("tls-cert", "", "`FILE` of the server's certificate: if it is set, the server at --listen is asked with TLS")
	ready := fs.Bool("ready", false, "ask whether the server can issue an ID now (/readyz), not whether it is alive (/healthz).\n"+
		"Do not restart a server that is alive and not ready: it recovers when its store does")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return health(c.Context(), p.Out, *listen, *admin, *cert, *ready)
	}
	return c
}

func health(ctx context.Context, out io.Writer, listen, admin, cert string, ready bool) error {
	scheme, name, addr := "http", "admin", admin
	if addr == "" {
		if name, addr = "listen", listen; cert != "" {
			scheme = "https"
		}
	}
	addr, err := reachable(name, addr)
	if err != nil {
		return err
	}
	url := scheme + "://" + addr + "/healthz"
	if ready {
		url = scheme + "://" + addr + "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/plain")
	// The certificate names the server, and not this address.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%w; if clients need a certificate, set --admin", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, strings.TrimSpace(string(text)))
	}
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

// reachable returns the address at which its own host reaches a server that listens at addr.
func reachable(flag, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" || port == "0" {
		return "", command.Refused("--%s %q is not HOST:PORT with the server's port, such as 127.0.0.1:8080", flag, addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // an image without /etc/hosts cannot resolve localhost
	}
	return net.JoinHostPort(host, port), nil
}
