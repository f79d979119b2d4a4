//go:build unix && go1.25

package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// refused checks that a store cannot be reached, because of a cause, and that the error hides the
// password.
func refused(t *testing.T, url, cause string) {
	t.Helper()
	err := answers(url)()
	require.ErrorContains(t, err, cause, url)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestEtcdIsStoreAndRereadsCertificates(t *testing.T) {
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
	shown := fmt.Sprintf("&cert=%s&key=%s", a.File("client.pem"), a.File("client.key"))
	trusting := fmt.Sprintf("&ca=%s%s", a.File("client-ca.pem"), shown)
	isStore(t, fmt.Sprintf("etcds://127.0.0.1:%d,localhost:%[1]d?prefix=/orders%s", port, trusting))
	refused(t, fmt.Sprintf("etcds://127.0.0.1:%d?prefix=/orders%s", port, shown), "certificate")
	suffer(t, p, fmt.Sprintf("etcds://127.0.0.1:%d?prefix=/%%s%s", port, trusting), servertest.CertificatesAreRenewed(a, p, nil))
}

func TestNATSIsStoreAndRereadsCertificates(t *testing.T) {
	t.Parallel()
	a := servertest.NewAuthority(t, "")
	port, dir := servertest.Port(t), t.TempDir()
	config := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
		listen: "127.0.0.1:%d", jetstream: {store_dir: %q}, tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true, timeout: 10}
		authorization: {user: app, password: "s3cret@/?s"}`,
		port, dir, a.File("server.pem"), a.File("server.key"), a.File("server-ca.pem")), 0o600))
	p := servertest.Start(t, servertest.Command{Path: installed.Need(t, installed.NATSServer), Args: []string{"-c", config}}, listens(port))
	user := "natss://app:s3cret%40%2F%3Fs@"
	shown := fmt.Sprintf("&replicas=1&cert=%s&key=%s", a.File("client.pem"), a.File("client.key"))
	trusting := fmt.Sprintf("%s&ca=%s", shown, a.File("client-ca.pem"))
	isStore(t, fmt.Sprintf("%s127.0.0.1:%d,localhost:%d?bucket=orders%s", user, port, port, trusting))
	refused(t, fmt.Sprintf("%s127.0.0.1:%d?bucket=orders%s", user, port, shown), "certificate")
	refused(t, fmt.Sprintf("natss://app:wrong-s3cret@127.0.0.1:%d?bucket=orders%s", port, trusting), "Authorization Violation")
	suffer(t, p, strings.ReplaceAll(user, "%", "%%")+fmt.Sprintf("127.0.0.1:%d?bucket=%%s%s", port, trusting),
		servertest.CertificatesAreRenewed(a, p, nil))
}

func TestPostgresIsStoreAndRereadsCertificates(t *testing.T) {
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
	url := func(addr string) string {
		return fmt.Sprintf("postgres://owner:s3cret%%40%%2F%%3Fs@%s/postgres?sslmode=verify-full&sslrootcert=%s&sslcert=%s&sslkey=%s",
			addr, a.File("client-ca.pem"), a.File("client.pem"), a.File("client.key"))
	}
	addr, p := servertest.Postgres(t, "s3cret@/?s", func(addr string) error {
		if c, err := net.Dial("tcp", addr); err != nil || c.Close() != nil {
			return errors.New("nothing listens")
		}
		return nil
	}, "-c", "ssl=on", "-c", "ssl_cert_file="+in("server.pem"), "-c", "ssl_key_file="+in("server.key"), "-c",
		"ssl_ca_file="+in("server-ca.pem"))
	isStore(t, url(addr)+"&table=orders")
	refused(t, strings.Replace(url(addr), "s3cret", "wrong-s3cret", 1), "password authentication failed")
	suffer(t, p, strings.ReplaceAll(url(addr), "%", "%%")+"&table=%s", servertest.CertificatesAreRenewed(a, p, install))
}
