//go:build unix

// Package kubetest starts a real kube-apiserver, on a real etcd, for tests. The server is
// installed by go run ./internal/install.
package kubetest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

// Server is a kube-apiserver with RBAC that runs until the test ends.
type Server struct {
	*servertest.Process
	Etcd *servertest.Process
	etcd string // its URL
	Addr string // of the loopback interface
	CA   string // file with the certificate that it made for itself
}

// Token is the token of a user with all rights.
const Token = "the-token-of-the-tests"

// Start starts a server that has its own etcd.
func Start(t testing.TB) *Server {
	t.Helper()
	path, etcd := installed.Need(t, installed.KubeAPIServer), servertest.Program(t, "etcd-server", "etcd")
	dir := servertest.Dir(t, "")
	url := fmt.Sprint("http://127.0.0.1:", servertest.Port(t))
	peer := fmt.Sprint("http://127.0.0.1:", servertest.Port(t))
	s := &Server{CA: filepath.Join(dir, "apiserver.crt"), etcd: url}
	s.Etcd = servertest.Start(t, servertest.Command{Path: etcd, Args: []string{
		"--name", "m", "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "m=" + peer,
		"--logger", "zap", "--log-level", "warn",
	}}, func() error { return ok(http.DefaultClient, url+"/health") })

	key := writeKey(t, filepath.Join(dir, "sa.key"))
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(Token+`,tester,1,"system:masters"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := servertest.Port(t)
	s.Addr = fmt.Sprint("127.0.0.1:", port)
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the server made its certificate itself
		},
	}
	s.Process = servertest.Start(t, servertest.Command{Path: path, Args: []string{
		"--etcd-servers=" + url,
		"--bind-address=127.0.0.1",
		"--advertise-address=192.0.2.1", // must not be a loopback address; is not used
		"--endpoint-reconciler-type=none",
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + dir,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--token-auth-file=" + tokens,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/24",
		"--disable-admission-plugins=ServiceAccount",
	}}, func() error { return ok(client, "https://"+s.Addr+"/readyz") })
	return s
}

// Wipe deletes all objects from etcd, while the API server runs.
func (s *Server) Wipe(t testing.TB) {
	t.Helper()
	const all = `{"key":"L3JlZ2lzdHJ5Lw==","range_end":"L3JlZ2lzdHJ5MA=="}` // from /registry/ to /registry0
	resp, err := http.Post(s.etcd+"/v3/kv/deleterange", "application/json", strings.NewReader(all))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("etcd answers %s", resp.Status)
	}
}

// ok returns nil if a server says that it is healthy.
func ok(client *http.Client, url string) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(url + ": " + resp.Status)
	}
	return nil
}

// writeKey writes a new RSA key, with which the server signs the tokens of service accounts.
func writeKey(t testing.TB, path string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
