//go:build unix

package urllease

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

// answers returns a function that returns nil if it can make a store.
func answers(url string) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		store, closeStore, err := Open(ctx, url)
		if err != nil {
			return err
		}
		defer closeStore()
		return Create(ctx, store, time.Nanosecond)
	}
}

func TestPostgresIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	initdb := servertest.Program(t, "postgresql", "/usr/lib/postgresql/*/bin/initdb", "initdb")
	postgres := servertest.Program(t, "postgresql", "/usr/lib/postgresql/*/bin/postgres", "postgres")
	dir, port := servertest.Dir(t, "postgres"), fmt.Sprint(servertest.Port(t))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("p@s/?s"), 0o644))
	url := "postgres://owner:p%40s%2F%3Fs@127.0.0.1:" + port + "/postgres?sslmode=disable&table=orders"
	servertest.Start(t, servertest.Command{Path: "/bin/sh", User: "postgres", Dir: dir, Args: []string{"-c",
		`"$0" -D data -U owner -A scram-sha-256 --pwfile secret --no-sync && exec "$1" -D data -p "$2" -k "$PWD" -c listen_addresses=127.0.0.1`,
		initdb, postgres, port}}, answers(url))
	isStore(t, url)
}

func TestMySQLIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	install := servertest.Program(t, "mariadb-server", "mariadb-install-db")
	mariadbd := servertest.Program(t, "mariadb-server", "mariadbd", "/usr/sbin/mariadbd")
	dir, port := servertest.Dir(t, "mysql"), fmt.Sprint(servertest.Port(t))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "init.sql"), []byte(
		"CREATE DATABASE app;\nCREATE USER app IDENTIFIED BY 'p@s/?s';\nGRANT ALL ON app.* TO app;\n"), 0o644))
	url := "mysql://app:p%40s%2F%3Fs@127.0.0.1:" + port + "/app?table=orders&timeout=1s"
	servertest.Start(t, servertest.Command{Path: "/bin/sh", User: "mysql", Dir: dir, Args: []string{"-c",
		`"$0" --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve &&
		exec "$1" --no-defaults --datadir="$PWD/data" --bind-address=127.0.0.1 --port="$2" --socket="$PWD/s" --pid-file="$PWD/pid" --skip-name-resolve --init-file="$PWD/init.sql"`,
		install, mariadbd, port}}, answers(url))
	isStore(t, url)
}

// certificate writes a certificate of this host and its key, and returns their files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

func TestEtcdIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	cert, key := certificate(t)
	port, peer := servertest.Port(t), fmt.Sprint("http://127.0.0.1:", servertest.Port(t))
	client := fmt.Sprint("https://127.0.0.1:", port)
	url := fmt.Sprintf("etcds://127.0.0.1:%d,localhost:%d?ca=%s&prefix=/orders", port, port, cert)
	servertest.Start(t, servertest.Command{Path: servertest.Program(t, "etcd-server", "etcd"), Args: []string{
		"--name", "m", "--data-dir", filepath.Join(t.TempDir(), "m"), "--cert-file", cert, "--key-file", key,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "m=" + peer,
		"--logger", "zap", "--log-level", "error",
	}}, answers(url))
	isStore(t, url)

	plain := answers(fmt.Sprintf("etcds://127.0.0.1:%d", port)) // no authority knows the certificate
	require.Error(t, plain())
}

func TestZooKeeperIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	dir, port := servertest.Dir(t, ""), servertest.Port(t)
	jar := servertest.Program(t, "zookeeper", "/usr/share/java/zookeeper.jar")
	config := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=100\n"+
		"maxSessionTimeout=60000\nadmin.enableServer=false\n", dir, port), 0o600))
	host := fmt.Sprint("127.0.0.1:", port)
	url := "zk://app:p%40s%2F%3Fs@" + host + "/orders?session=60s"
	servertest.Start(t, servertest.Command{Path: servertest.Program(t, "zookeeper", "java"), Dir: dir, Args: []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-cp", jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config}}, answers(url))
	isStore(t, url)

	store, closeStore, err := Open(t.Context(), "zk://"+host+"/orders")
	require.NoError(t, err)
	defer closeStore()
	_, err = store.Load(t.Context())
	require.ErrorIs(t, err, zk.ErrNoAuth)
}
