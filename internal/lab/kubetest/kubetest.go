//go:build unix && go1.25

// Package kubetest starts a kube-apiserver with etcd for tests, and sends it requests like kubectl.
// go run ./internal/lab/install installs the server.
package kubetest

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// Server is a kube-apiserver with RBAC that runs until the test ends.
type Server struct {
	*servertest.Process
	Etcd *servertest.Process
	etcd string // its URL
	Addr string // on the loopback interface
	CA   string // the file of its self-signed certificate
}

// Token is the token of a user with all rights.
const Token = "the-token-of-the-tests"

// Start starts a server with its own etcd.
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
		// etcd elects itself after the election time-out.
		"--heartbeat-interval", "10", "--election-timeout", "100",
		"--logger", "zap", "--log-level", "warn",
	}}, func() error { return request("GET", url+"/health", "", nil, nil) })

	// The server signs the tokens of service accounts with this key.
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	keyFile, tokens := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv")
	servertest.Do(t, err,
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600),
		os.WriteFile(tokens, []byte(Token+`,tester,1,"system:masters"`+"\n"), 0o600))
	port := servertest.Port(t)
	s.Addr = fmt.Sprint("127.0.0.1:", port)
	s.Process = servertest.Start(t, servertest.Command{Path: path, Args: []string{
		"--etcd-servers=" + url,
		"--bind-address=127.0.0.1",
		"--advertise-address=192.0.2.1", // must not be a loopback address; is not used
		"--endpoint-reconciler-type=none",
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + dir,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + keyFile,
		"--service-account-signing-key-file=" + keyFile,
		"--token-auth-file=" + tokens,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/24",
		"--disable-admission-plugins=ServiceAccount",
	}}, func() error {
		// /readyz would wait until the server has created its own roles.
		return s.Ask(Token, "GET", "/readyz/etcd", nil, nil)
	})
	return s
}

// Wipe deletes all objects from etcd while the API server runs.
func (s *Server) Wipe(t testing.TB) {
	t.Helper()
	// From /registry/ to /registry0.
	const all = `{"key":"L3JlZ2lzdHJ5Lw==","range_end":"L3JlZ2lzdHJ5MA=="}`
	servertest.Do(t, request("POST", s.etcd+"/v3/kv/deleterange", "", []byte(all), nil))
}

// Ask sends a request with a token and with body, if it is not nil, as JSON. If answer is not nil,
// the response is decoded into it.
func (s *Server) Ask(token, method, path string, body, answer any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return request(method, "https://"+s.Addr+path, token, sent, answer)
}

// Apply applies a manifest like kubectl apply --server-side, with strict validation of fields.
func (s *Server) Apply(namespace string, manifest []byte) (err error) {
	for object := range bytes.SplitSeq(manifest, separator) {
		path := fmt.Sprintf("%s?fieldManager=kubectl&fieldValidation=Strict", objectPath(namespace, object))
		err = errors.Join(err, request("PATCH", "https://"+s.Addr+path, Token, object, nil))
	}
	return err
}

// separator separates the objects of a manifest.
var separator = []byte("\n---\n")

// heads matches the lines of a manifest with an object's version, kind and name.
var heads = regexp.MustCompile(`(?ms)^apiVersion: (\S+)$.*?^kind: (\S+)$.*?^metadata:$.*?^  name: (\S+)$`)

func objectPath(namespace string, object []byte) string {
	head := heads.FindSubmatch(object)
	version, kind, name := string(head[1]), string(head[2]), string(head[3])
	path := "/api/" + version
	if strings.Contains(version, "/") {
		path = "/apis/" + version
	}
	if kind != "Namespace" {
		path += "/namespaces/" + namespace
	}
	plural := strings.ToLower(kind) + "s"
	if stem, ok := strings.CutSuffix(plural, "ys"); ok {
		plural = stem + "ies"
	}
	return path + "/" + plural + "/" + name
}

// Namespace creates a namespace, unless it exists.
func (s *Server) Namespace(t testing.TB, name string) {
	t.Helper()
	servertest.Do(t, s.Apply("", fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", name)))
}

// AccountToken returns a token of a service account.
func (s *Server) AccountToken(t testing.TB, namespace, account string) string {
	t.Helper()
	var answer struct{ Status struct{ Token string } }
	servertest.Do(t, s.Ask(Token, "POST", "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", struct{}{}, &answer))
	return answer.Status.Token
}

var client = &http.Client{
	Timeout: 30 * time.Second,
	// The server's certificate is self-signed.
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

func request(method, url, token string, body []byte, answer any) error {
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if token != "" { // etcd has none
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, got)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(got, answer)
}
