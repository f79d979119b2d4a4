//go:build unix && go1.25

package stores

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// suffer lets a trouble happen to a server while a lease is held. The URL is one with a %s for the
// space.
func suffer(t *testing.T, p *servertest.Process, url string, x servertest.Trouble) {
	t.Helper()
	s := &servertest.Server{Process: p, Window: 2 * time.Second, Open: func(_, space string) (lease.Store, func() error, error) {
		return Open(context.Background(), fmt.Sprintf(url, space))
	}}
	servertest.Troubles(t, s, nil, x)
}

// listens returns a function that returns nil if a server listens on the port.
func listens(port int) func() error {
	return func() error {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			err = c.Close()
		}
		return err
	}
}

func TestEtcdsRereadsCertificates(t *testing.T) {
	t.Parallel()
	a := servertest.NewAuthority(t, "")
	port, peer := servertest.Port(t), fmt.Sprint("http://127.0.0.1:", servertest.Port(t))
	client := fmt.Sprint("https://127.0.0.1:", port)
	p := servertest.Start(t, servertest.Command{Path: servertest.Program(t, "etcd-server", "etcd"), Args: []string{
		"--name", "m", "--data-dir", filepath.Join(t.TempDir(), "m"),
		"--cert-file", a.File("server.pem"), "--key-file", a.File("server.key"), "--client-cert-auth",
		"--trusted-ca-file", a.File("server-ca.pem"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "m=" + peer,
		"--logger", "zap", "--log-level", "error",
	}}, listens(port))
	suffer(t, p, fmt.Sprintf("etcds://127.0.0.1:%d?prefix=/%%s&ca=%s&cert=%s&key=%s", port,
		a.File("client-ca.pem"), a.File("client.pem"), a.File("client.key")),
		servertest.CertificatesAreRenewed(a, p))
}

func TestNATSSRereadsCertificates(t *testing.T) {
	t.Parallel()
	a := servertest.NewAuthority(t, "")
	port, dir := servertest.Port(t), t.TempDir()
	config := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
		listen: "127.0.0.1:%d", jetstream: {store_dir: %q}, tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true, timeout: 10}`,
		port, dir, a.File("server.pem"), a.File("server.key"), a.File("server-ca.pem")), 0o600))
	p := servertest.Start(t, servertest.Command{Path: installed.Need(t, installed.NATSServer), Args: []string{"-c", config}}, listens(port))
	suffer(t, p, fmt.Sprintf("natss://127.0.0.1:%d?bucket=%%s&replicas=1&ca=%s&cert=%s&key=%s", port,
		a.File("client-ca.pem"), a.File("client.pem"), a.File("client.key")),
		servertest.CertificatesAreRenewed(a, p))
}

func TestPostgresRereadsCertificates(t *testing.T) {
	t.Parallel()
	a, dir := servertest.NewAuthority(t, ""), servertest.Dir(t, "postgres")
	install := func() { // the server refuses a key that others can read
		owner := servertest.Must(os.Stat(dir))(t).Sys().(*syscall.Stat_t)
		for _, name := range []string{"server.pem", "server.key", "server-ca.pem"} {
			path := filepath.Join(dir, name)
			servertest.Do(t, os.WriteFile(path, servertest.Must(os.ReadFile(a.File(name)))(t), 0o600),
				os.Chown(path, int(owner.Uid), int(owner.Gid)))
		}
	}
	install()
	in := func(name string) string { return filepath.Join(dir, name) }
	addr, p := servertest.Postgres(t, "", func(addr string) error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	}, "-c", "ssl=on", "-c", "ssl_cert_file="+in("server.pem"), "-c", "ssl_key_file="+in("server.key"), "-c",
		"ssl_ca_file="+in("server-ca.pem"))
	suffer(t, p, fmt.Sprintf("postgres://owner@%s/postgres?table=%%s&sslmode=verify-full&sslrootcert=%s&sslcert=%s&sslkey=%s",
		addr, a.File("client-ca.pem"), a.File("client.pem"), a.File("client.key")),
		servertest.Trouble{Name: "CertificatesAreRenewed", Says: []string{"certificate"},
			Begin: func(t *testing.T, _ string) func(*testing.T) {
				p.Kill()
				a.Renew("server", "next client")
				install()
				p.Restart()
				return func(*testing.T) { a.Rename("next client", "client") }
			}})
}
