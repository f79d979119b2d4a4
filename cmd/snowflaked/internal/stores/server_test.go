//go:build unix && go1.25

package stores

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

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// answers returns a function that returns nil if the store answers.
func answers(url string) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		store, closeStore, err := Open(ctx, url)
		if err != nil {
			return err
		}
		defer closeStore()
		_, err = store.Get(ctx, "a")
		return err
	}
}

func TestPostgresIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	url := func(addr string) string {
		return "postgres://owner:p%40s%2F%3Fs@" + addr + "/postgres?sslmode=disable&table=orders"
	}
	addr, _ := servertest.Postgres(t, "p@s/?s", func(addr string) error { return answers(url(addr))() })
	isStore(t, url(addr))
}

func TestMySQLIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	t.Parallel()
	init := filepath.Join(servertest.Dir(t, "mysql"), "init.sql")
	require.NoError(t, os.WriteFile(init, []byte(
		"CREATE DATABASE app;\nCREATE USER app IDENTIFIED BY 'p@s/?s';\nGRANT ALL ON app.* TO app;\n"), 0o644))
	url := func(addr string) string { return "mysql://app:p%40s%2F%3Fs@" + addr + "/app?table=orders&timeout=1s" }
	addr, _ := servertest.MariaDB(t, func(addr string) error { return answers(url(addr))() }, "--init-file="+init)
	isStore(t, url(addr))
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

	// No authority has signed the certificate.
	plain := answers(fmt.Sprintf("etcds://127.0.0.1:%d", port))
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
	_, err = store.Get(t.Context(), "a")
	require.ErrorIs(t, err, zk.ErrNoAuth)
}

func TestNATSIsStore(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	port, dir := servertest.Port(t), t.TempDir()
	config := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
		listen: "127.0.0.1:%d", jetstream: {store_dir: %q}, tls: {cert_file: %q, key_file: %q, timeout: 10}
		authorization: {user: app, password: "p@s/?s"}`, port, dir, cert, key), 0o600))
	url := fmt.Sprintf("natss://app:p%%40s%%2F%%3Fs@127.0.0.1:%d,localhost:%d?bucket=orders&replicas=1&ca=%s", port, port, cert)
	servertest.Start(t, servertest.Command{Path: installed.Need(t, installed.NATSServer), Args: []string{"-c", config}}, answers(url))
	isStore(t, url)
	// No authority has signed the certificate.
	require.Error(t, answers(fmt.Sprintf("natss://app:p%%40s%%2F%%3Fs@127.0.0.1:%d", port))())
	err := answers(fmt.Sprintf("natss://app:wrong-secret@127.0.0.1:%d?ca=%s", port, cert))()
	require.ErrorContains(t, err, "Authorization Violation")
	require.NotContains(t, err.Error(), "wrong-secret")
}

// setAWS sets the variables of the AWS SDK, and nothing else counts.
func setAWS(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": servertest.AccessKey, "AWS_SECRET_ACCESS_KEY": servertest.Secret, "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none",
	} {
		t.Setenv(name, value)
	}
}

func TestS3IsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	setAWS(t)
	addr, dir, _ := servertest.S3(t, "workers")
	isStore(t, "s3://workers/a/b?path_style=true&region=us-east-1&endpoint=http://"+addr)
	_, err := os.Stat(filepath.Join(dir, "a", "b", "worker", "0"))
	require.NoError(t, err)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+addr)
	isStore(t, "s3://workers?path_style=1&conditional_delete=true")
}

func TestDynamoDBIsStore(t *testing.T) {
	depth.NeedFull(t, "a real server")
	setAWS(t)
	addr, _ := servertest.Dynalite(t)
	servertest.CreateTable(t, addr, "workers")
	isStore(t, "dynamodb://workers/orders?endpoint=http://"+addr)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://"+addr)
	isStore(t, "dynamodb://workers")
}
