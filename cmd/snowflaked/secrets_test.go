//go:build unix && go1.25

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
)

func replace(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// secure returns a client that trusts the servers of one authority, and shows the certificate of
// another, if it is not nil, on new connections each time.
func secure(t *testing.T, trusted, shown *servertest.Authority) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(servertest.Must(os.ReadFile(trusted.File("client-ca.pem")))(t))
	if shown != nil {
		pair := servertest.Must(tls.LoadX509KeyPair(shown.File("client.pem"), shown.File("client.key")))(t)
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// Certificates, authorities and tokens are read again when their files change. Invalid files change
// nothing.
func TestSecretsAreRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	old, next := servertest.NewAuthority(t, ""), servertest.NewAuthority(t, "")
	install := func(a *servertest.Authority, names ...string) { // each at once, as tools that rotate secrets do
		for _, name := range names {
			replace(t, file(name), string(servertest.Must(os.ReadFile(a.File(name)))(t)))
		}
	}
	install(old, "server.pem", "server.key", "server-ca.pem")
	replace(t, file("token"), "alpha-alpha-alpha\n")
	p := start(t, nil, "--store", "file:"+file("workers"), "--tls-cert", file("server.pem"), "--tls-key", file("server.key"),
		"--tls-client-ca", file("server-ca.pem"), "--token-file", file("token"), "--admin", "127.0.0.1:0")
	admin := "http://" + p.awaitLog("probes are answered")["address"].(string)
	url := strings.Replace(p.url, "http:", "https:", 1) + "/id"
	ask := func(c *http.Client, token string) int {
		status, _, _ := get(t, c, url, "Authorization", "Bearer "+token)
		return status // 0 if the handshake failed
	}
	answers := func(what string, c *http.Client, token string, want int) {
		t.Helper()
		await(t, what, func() bool { return ask(c, token) == want })
	}
	for what, test := range map[string]struct {
		c     *http.Client
		token string
		want  int
	}{
		"all is right":          {secure(t, old, old), "alpha-alpha-alpha", 200},
		"another token":         {secure(t, old, old), "beta-beta-beta-beta", 401},
		"no certificate":        {secure(t, old, nil), "alpha-alpha-alpha", 0},
		"another's certificate": {secure(t, old, next), "alpha-alpha-alpha", 0},
		"another server":        {secure(t, next, old), "alpha-alpha-alpha", 0},
	} {
		assert.Equal(t, test.want, ask(test.c, test.token), what)
	}
	_, script, _ := get(t, secure(t, old, old), strings.TrimSuffix(url, "id")+"server.js")
	assert.Contains(t, script, "needsToken = true", "the page asks for IDs that it would not get")
	replace(t, file("token"), "alpha-alpha-alpha\nbeta-beta-beta-beta\n")
	answers("a second token", secure(t, old, old), "beta-beta-beta-beta", 200)
	replace(t, file("token"), "\n")
	replace(t, file("server.pem"), "no certificate")
	metrics := func() string {
		_, text, _ := get(t, http.DefaultClient, admin+"/metrics")
		return text
	}
	await(t, "metrics", func() bool {
		return strings.Contains(metrics(), `snowflake_server_reload_failed{files="tokens"} 1`) &&
			strings.Contains(metrics(), `snowflake_server_reload_failed{files="tls"} 1`)
	})
	served := servertest.Must(tls.LoadX509KeyPair(old.File("server.pem"), old.File("server.key")))(t).Leaf
	assert.Contains(t, metrics(), fmt.Sprintf("\nsnowflake_server_certificate_not_after_timestamp_seconds %v\n", float64(served.NotAfter.Unix())))
	answers("invalid files", secure(t, old, old), "alpha-alpha-alpha", 200)
	replace(t, file("token"), "beta-beta-beta-beta\n")
	answers("the first token is gone", secure(t, old, old), "alpha-alpha-alpha", 401)
	install(next, "server.pem", "server.key")
	answers("the next certificate", secure(t, next, old), "beta-beta-beta-beta", 200)
	await(t, "metrics", func() bool { return strings.Contains(metrics(), `snowflake_server_reload_failed{files="tls"} 0`) })
	install(next, "server-ca.pem")
	answers("the next authority of clients", secure(t, next, next), "beta-beta-beta-beta", 200)
	assert.Zero(t, ask(secure(t, next, old), "beta-beta-beta-beta"))
	testGRPC(t, strings.TrimPrefix(p.url, "http://"), "beta-beta-beta-beta",
		credentials.NewTLS(secure(t, next, next).Transport.(*http.Transport).TLSClientConfig))
	assert.Contains(t, p.log.String(), "TLS handshake error", "it does not say that clients were refused")
	assert.NotNil(t, p.logged("the new files are invalid: the old ones stay in use"), "the log does not say that the files are invalid")
}

// gauge is a metric that the test can read.
type gauge struct {
	prometheus.Gauge
	value atomic.Int64
}

func (g *gauge) Set(value float64) { g.value.Store(int64(value)) }

// If the new files are invalid, the value stays until they are valid.
func TestFilesThatAreNoGoodChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		replace(t, file, "old-old-old-old-")
		bad := new(gauge)
		get := servertest.Must(watch(t.Context(), bad, parseTokens, file))(t)
		for _, step := range []struct {
			change func() error
			want   string
			bad    int64
		}{
			{func() error { return os.Rename(file, file+".old") }, "old-old-old-old-", 1},
			{func() error { replace(t, file, "short"); return nil }, "old-old-old-old-", 1},
			{func() error { return os.Rename(file+".old", file) }, "old-old-old-old-", 0},
			{func() error { replace(t, file, "new-new-new-new-"); return nil }, "new-new-new-new-", 0},
		} {
			require.NoError(t, step.change())
			time.Sleep(every)
			synctest.Wait()
			assert.Equal(t, step.want, get()[0].Secret)
			assert.Equal(t, step.bad, bad.value.Load())
		}
	})
}

// A token can have a name and a quota. A token that can be guessed is refused, or that no request
// can carry, such as the first one after a byte order mark. An error never shows the token.
func TestTokensHaveSettings(t *testing.T) {
	want := []server.Token{{Secret: "one-one-one-one-"}, {Secret: "two-two-two-two-", Name: "web"},
		{Secret: "three-three-three", Name: "web", IDsPerSecond: 500},
		{Secret: "four-four-four-f", Name: "etl", IDsPerSecond: 5, Burst: 100}}
	tokens, err := parseTokens([]byte(" one-one-one-one- \r\n\ntwo-two-two-two- name=web\nthree-three-three name=web ids-per-second=500\n" +
		"four-four-four-f name=etl ids-per-second=5 burst=100"))
	require.NoError(t, err)
	assert.Equal(t, want, tokens)
	const hidden = "hidden-hidden-hid"
	for file, says := range map[string]string{
		hidden + " words": "something other", hidden + " name=": "invalid name",
		hidden + " ids-per-second=5": "but no name", hidden + " name=a burst=5": "no ids-per-second",
		hidden + " name=a ids-per-second=0": "invalid ids-per-second", hidden + " name=a ids-per-second=x": "invalid ids-per-second",
		hidden + " name=a ids-per-second=5 burst=0": "invalid burst", "\ufeff" + hidden + "\n": "printable",
		"good-good-good-good\nhid\x00den\n": "token 2",
		"hiddén\n":                          "printable", hidden + " \u00e9\n": "something other", "\n": "no token",
		"hidden-hidden-h\n":                "15 characters",
		hidden + "\n" + hidden + " name=a": "token 2 is the same as token 1",
		hidden + " name=a ids-per-second=5\n2" + hidden + "\n3" + hidden + " name=a ids-per-second=6": "token 3 has another quota than token 1 of the same name",
		hidden + " name=a ids-per-second=5\n2" + hidden + " name=a ids-per-second=5 burst=6":          "token 2 has another quota",
	} {
		tokens, err := parseTokens([]byte(file))
		require.ErrorContains(t, err, says, "%q: %v", file, tokens)
		assert.NotContains(t, err.Error(), "hid")
	}
}

// testGRPC calls as other languages' clients do: with gRPC's own client.
func testGRPC(t *testing.T, addr, token string, c credentials.TransportCredentials) {
	t.Helper()
	conn := servertest.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(c)))(t)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	var batch pb.BatchResponse
	require.NoError(t, conn.Invoke(ctx, "/snowflake.v1.SnowflakeService/Batch", &pb.BatchRequest{N: 100_000}, &batch))
	require.Len(t, batch.Ids, 100_000)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/snowflake.v1.SnowflakeService/Stream")
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(&pb.StreamRequest{N: 2500}))
	require.NoError(t, stream.CloseSend())
	all := batch.Ids
	for part := new(pb.StreamResponse); stream.RecvMsg(part) == nil; part = new(pb.StreamResponse) {
		all = append(all, part.Ids...)
	}
	assert.Len(t, all, 102_500)
	assert.True(t, slices.IsSorted(all) && len(slices.Compact(all)) == 102_500, "they do not increase")
	err = conn.Invoke(ctx, "/snowflake.v1.SnowflakeService/Batch", &pb.BatchRequest{N: -1}, &batch)
	s := status.Convert(err)
	require.Equal(t, codes.InvalidArgument, s.Code())
	require.Len(t, s.Details(), 1)
	assert.Contains(t, s.Message(), "-1 is not 1 to 100000")
}

// The server warns if other hosts can reach it without TLS or without a token. On loopback it does
// not.
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
		require.Equal(t, test.warning == "", got == "", "%v: %q", test.addr, got)
		assert.Contains(t, got, test.warning)
	}
}

// The server warns if every user of the host can read a file with tokens or a key.
func TestReadableSecretsAreWarnedOf(t *testing.T) {
	t.Parallel()
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		file := filepath.Join(t.TempDir(), "token")
		replace(t, file, "alpha-alpha-alpha")
		require.NoError(t, os.Chmod(file, mode))
		p := start(t, nil, "--store", "file:"+t.TempDir(), "--token-file", file)
		entry := p.logged("every user of this host can read the file: chmod o-r")
		assert.Equal(t, warned, entry != nil, mode)
	}
}
