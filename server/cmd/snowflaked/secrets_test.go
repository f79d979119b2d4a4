//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

// issued is a certificate with its key.
type issued struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	der  []byte
}

// issue makes a certificate: by is its issuer, or nil for a new authority.
func issue(t *testing.T, by *issued) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &issued{cert, key, der}
}

func (c *issued) pair() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{c.der}, PrivateKey: c.key}
}

// write replaces files, each at once, as tools that rotate secrets do.
func (c *issued) write(t *testing.T, cert, key string) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(c.key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: c.der}, key: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if file != "" {
			replace(t, file, string(pem.EncodeToMemory(block)))
		}
	}
}

func replace(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// secure returns a client that trusts an authority and shows a certificate, on new connections each
// time.
func secure(authority, client *issued) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(authority.cert)
	config := &tls.Config{RootCAs: pool}
	if client != nil {
		config.Certificates = []tls.Certificate{client.pair()}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// Certificates, authorities and tokens are read again when their files change; files that are no
// good change nothing.
func TestSecretsAreRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	old, next, authority := issue(t, nil), issue(t, nil), issue(t, nil)
	issue(t, old).write(t, file("cert"), file("key"))
	authority.write(t, file("ca"), "")
	replace(t, file("token"), "alpha\n")
	p := start(t, nil, "-store", "file:"+file("workers"), "-tls-cert", file("cert"), "-tls-key", file("key"),
		"-tls-client-ca", file("ca"), "-token-file", file("token"))
	url := strings.Replace(p.url, "http:", "https:", 1) + "/id"
	client := issue(t, authority)
	ask := func(c *http.Client, token string) int {
		resp, _, err := get(t, c, url, "Authorization", "Bearer "+token)
		if err != nil {
			return 0 // the handshake failed
		}
		return resp.StatusCode
	}
	await := func(what string, c *http.Client, token string, want int) {
		t.Helper()
		for begun := time.Now(); ask(c, token) != want; time.Sleep(50 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatalf("%s: %d, not %d", what, ask(c, token), want)
			}
		}
	}
	for what, test := range map[string]struct {
		c     *http.Client
		token string
		want  int
	}{
		"all is right":          {secure(old, client), "alpha", 200},
		"another token":         {secure(old, client), "beta", 401},
		"no certificate":        {secure(old, nil), "alpha", 0},
		"another's certificate": {secure(old, issue(t, next)), "alpha", 0},
		"another server":        {secure(next, client), "alpha", 0},
	} {
		if got := ask(test.c, test.token); got != test.want {
			t.Errorf("%s: %d, not %d", what, got, test.want)
		}
	}
	replace(t, file("token"), "alpha\nbeta\n")
	await("a second token", secure(old, client), "beta", 200)
	replace(t, file("token"), "\n")
	replace(t, file("cert"), "no certificate")
	time.Sleep(2 * every)
	await("files that are no good", secure(old, client), "alpha", 200)
	replace(t, file("token"), "beta\n")
	await("the first token is gone", secure(old, client), "alpha", 401)
	issue(t, next).write(t, file("cert"), file("key"))
	await("the next certificate", secure(next, client), "beta", 200)
	next.write(t, file("ca"), "")
	await("the next authority of clients", secure(next, issue(t, next)), "beta", 200)
	assert.Zero(t, ask(secure(next, client), "beta"))
	testGRPC(t, strings.TrimPrefix(p.url, "http://"), "beta", credentials.NewTLS(secure(next, issue(t, next)).Transport.(*http.Transport).TLSClientConfig))
	assert.Contains(t, p.log.String(), "TLS handshake error", "it does not say that clients were refused")
	assert.NotNil(t, p.logged("the files are no good: the old ones stay in use"), "it does not say that the files are no good")
}

// A file that cannot be read at first is read when it can be, although neither its time nor its size
// changes then: its permissions are set after it is written, say.
func TestFilesThatCannotBeReadAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		replace(t, file, "old")
		var unreadable atomic.Bool
		w, err := watch(t.Context(), func() (string, error) {
			if unreadable.Load() {
				return "", os.ErrPermission
			}
			b, err := os.ReadFile(file)
			return string(b), err
		}, file)
		require.NoError(t, err)
		unreadable.Store(true)
		replace(t, file, "new one")
		time.Sleep(every)
		synctest.Wait()
		assert.Equal(t, "old", w.get())
		unreadable.Store(false)
		time.Sleep(every)
		synctest.Wait()
		assert.Equal(t, "new one", w.get())
	})
}

// A link that names another file is a change, even if the time and the size are the same, as in an
// image in which all files have one time.
func TestLinkNamesAnotherFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := func(name string) string { return filepath.Join(dir, name) }
		for _, name := range []string{"old", "new"} {
			replace(t, file(name), name+" name=x")
			require.NoError(t, os.Chtimes(file(name), time.Now(), time.Now()))
		}
		link := func(to string) {
			require.NoError(t, errors.Join(os.Symlink(to, file("next")), os.Rename(file("next"), file("link"))))
		}
		link("old")
		w, err := watch(t.Context(), func() ([]server.Token, error) { return readTokens(file("link")) }, file("link"))
		require.NoError(t, err)
		link("new")
		time.Sleep(every)
		synctest.Wait()
		if got := w.get(); got[0].Secret != "new" {
			t.Error(got)
		}
	})
}

// A token that no request can carry is refused, such as the first one after a byte order mark.
func TestTokensThatNoRequestCanCarry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, text := range []string{"\ufefftoken\n", "good\nto\x00ken\n", "caf\u00e9\n", "one \u00e9\n"} {
		replace(t, file, text)
		tokens, err := readTokens(file)
		assert.Error(t, err, "%q: %v", text, tokens)
	}
}

// A token can have a name and a quota. An error never shows the token.
func TestTokensHaveSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	replace(t, file, " one \r\n\ntwo name=web\nthree name=web ids-per-second=500\n")
	want := []server.Token{{Secret: "one"}, {Secret: "two", Name: "web"}, {Secret: "three", Name: "web", IDsPerSecond: 500}}
	tokens, err := readTokens(file)
	require.NoError(t, err)
	assert.Equal(t, want, tokens)
	for line, says := range map[string]string{
		"hidden words": "something else", "hidden name=": "no good name", "hidden ids-per-second=5": "no name",
		"hidden name=a ids-per-second=0": "no good ids-per-second", "hidden name=a ids-per-second=x": "no good ids-per-second",
	} {
		replace(t, file, line)
		tokens, err := readTokens(file)
		require.Error(t, err, "%q: %v, %v", line, tokens, err)
		require.Contains(t, err.Error(), says, "%q: %v, %v", line, tokens, err)
		assert.NotContains(t, err.Error(), "hidden", "%q: %v, %v", line, tokens, err)
	}
}

// Files are read when they change, also if nobody asks for anything.
func TestFilesAreReadWithoutRequests(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	replace(t, file, "one")
	p := start(t, nil, "-store", "file:"+t.TempDir(), "-token-file", file)
	replace(t, file, "another")
	p.awaitLog("the files were read again")
}

func TestGRPCWithoutTLS(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "-store", "file:"+t.TempDir())
	testGRPC(t, strings.TrimPrefix(p.url, "http://"), "", insecure.NewCredentials())
}

// testGRPC calls as other languages' clients do: with gRPC's own client.
func testGRPC(t *testing.T, addr, token string, c credentials.TransportCredentials) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(c))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	var batch pb.BatchResponse
	if err := conn.Invoke(ctx, "/snowflake.v1.SnowflakeService/Batch", &pb.BatchRequest{N: 100_000}, &batch); err != nil || len(batch.Ids) != 100_000 {
		t.Fatal(len(batch.Ids), err)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/snowflake.v1.SnowflakeService/Stream")
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(&pb.StreamRequest{N: 2500}))
	require.NoError(t, stream.CloseSend())
	n, last := 0, batch.Ids[len(batch.Ids)-1]
	for {
		var part pb.StreamResponse
		if err := stream.RecvMsg(&part); err != nil {
			break
		}
		for _, id := range part.Ids {
			if id <= last {
				t.Fatalf("%d is not above %d", id, last)
			}
			last = id
			n++
		}
	}
	assert.Equal(t, 2500, n)
	err = conn.Invoke(ctx, "/snowflake.v1.SnowflakeService/Batch", &pb.BatchRequest{N: -1}, &batch)
	s := status.Convert(err)
	require.Equal(t, codes.InvalidArgument, s.Code())
	require.Len(t, s.Details(), 1)
	assert.Contains(t, s.Message(), "-1 is not 1 to 100000")
}

// It warns if others than this host's processes can reach it without TLS or without a token, and is
// silent on loopback.
func TestServerWarnsOfOpenAddresses(t *testing.T) {
	for _, test := range []struct {
		addr    net.Addr
		c       config
		warning string
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, config{}, ""},
		{&net.TCPAddr{IP: net.IPv6loopback}, config{}, ""},
		{&net.TCPAddr{IP: net.IPv6unspecified}, config{}, "take IDs and read the traffic"},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, config{tokenFile: "x"}, "tokens can be read"},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, config{cert: "x"}, "can take IDs"},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, config{cert: "x", tokenFile: "x"}, ""},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, config{cert: "x", clientCA: "x"}, ""},
	} {
		got := test.c.warning(test.addr)
		require.Equal(t, (test.warning == ""), (got == ""), "%v, %+v: %q", test.addr, test.c, got)
		assert.Contains(t, got, test.warning, "%v, %+v: %q", test.addr, test.c, got)
	}
}
