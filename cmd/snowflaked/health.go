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
)

const aboutHealth = `snowflaked health asks the server of this host or container whether it is alive, for use as a container's
health check. The exit status is 0 if it answers 200 and 1 if not. With the environment of the server, it needs
no flags.

usage:
  snowflaked health [--listen ADDRESS] [--admin ADDRESS] [--ready]
`

// healthTime bounds the request.
const healthTime = 3 * time.Second

// health asks a server that listens at --admin or, if there is no such address, at --listen.
func health(ctx context.Context, args []string, getenv func(string) string, stdout, _ io.Writer) error {
	fs := newFlags()
	listen := fs.String("listen", defaultListen, "`ADDRESS` of the server, as the server has it")
	admin := fs.String("admin", "", "`ADDRESS` of its probes, as the server has it. Empty: ask at --listen")
	cert := fs.String("tls-cert", "", "`FILE` of the server's certificate: if it is set, the server at --listen is asked with TLS")
	ready := fs.Bool("ready", false, "ask whether the server can issue an ID now (/readyz), not whether it is alive (/healthz).\n"+
		"Do not restart a server that is alive and not ready: it recovers when its store does")
	if err := parse(fs, aboutHealth, args, getenv, stdout); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return refused("health takes no arguments besides flags, got %q", fs.Args())
	}
	scheme, name, addr := "http", "admin", *admin
	if addr == "" {
		if name, addr = "listen", *listen; *cert != "" {
			scheme = "https"
		}
	}
	addr, err := reachable(name, addr)
	if err != nil {
		return err
	}
	url := scheme + "://" + addr + "/healthz"
	if *ready {
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
		fmt.Fprintf(stdout, "%s", text)
	}
	return err
}

// reachable returns the address at which its own host reaches a server that listens at addr.
func reachable(flag, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" || port == "0" {
		return "", refused("--%s %q is not HOST:PORT with the server's port, such as 127.0.0.1:8080", flag, addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // an image without /etc/hosts cannot resolve localhost
	}
	return net.JoinHostPort(host, port), nil
}
