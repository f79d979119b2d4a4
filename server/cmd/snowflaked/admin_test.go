//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

// If idle clients hold all connections, probes are answered at the address of their own, which issues no IDs.
func TestProbesDoNotStarve(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "-store", "file:"+t.TempDir(), "-max-connections", "5", "-admin", "127.0.0.1:0")
	admin := "http://" + p.awaitLog("probes are answered")["address"].(string)
	for range 10 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	impatient := &http.Client{Timeout: 100 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, _, err := get(t, impatient, p.url+"/healthz")
	assert.Error(t, err, "the test itself is wrong: there is room for another connection: %v", resp)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/id": 404, "/ids?n=1": 404, "/": 404} {
		resp, text, err := get(t, http.DefaultClient, admin+path)
		require.NoError(t, err, "%s: %v %s %v", path, resp, text, err)
		assert.Equal(t, want, resp.StatusCode, "%s: %v %s %v", path, resp, text, err)
	}
}

// Clients of gRPC ask for health without a token, at both addresses, and for the methods with the token.
func TestHealthAndReflectionOfGRPC(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "-store", "file:"+t.TempDir(), "-admin", "127.0.0.1:0")
	admin := p.awaitLog("probes are answered")["address"].(string)
	for _, addr := range []string{strings.TrimPrefix(p.url, "http://"), admin} {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		health := grpc_health_v1.NewHealthClient(conn)
		for _, service := range []string{"", "snowflake.v1.SnowflakeService"} {
			out, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			require.NoError(t, err, "%s: %q: %v %v", addr, service, out, err)
			assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, out.Status, "%s: %q: %v %v", addr, service, out, err)
		}
		_, err = health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nobody"})
		assert.Equal(t, codes.NotFound, status.Code(err))
		if addr == admin {
			continue
		}
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		ask := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
		require.NoError(t, stream.Send(ask))
		out, err := stream.Recv()
		require.NoError(t, err, out)
		assert.Contains(t, out.String(), "snowflake.v1.SnowflakeService", out)
	}
}

// On loopback, only names of the loopback interface and those of -hosts are the server's.
func TestNamesOnLoopbackAreChecked(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "-store", "file:"+t.TempDir(), "-hosts", "ids.internal,other.internal")
	for host, want := range map[string]int{"evil.example": 421, "other.internal": 200, "localhost": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/id", nil)
		require.NoError(t, err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, want, resp.StatusCode, "%s: %v", host, resp.Status)
	}
}

// The version is in the command's output, in the log and in the metrics.
func TestVersionIsShown(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "-version", "--version"} {
		var out bytes.Buffer
		if code := command(t.Context(), []string{arg}, func(string) string { return "" }, &out, &out); code != exitOK || !regexp.MustCompile(`^snowflaked \S+ go\S+ \w+/\w+\n$`).MatchString(out.String()) {
			t.Errorf("%s: %d %q", arg, code, &out)
		}
	}
	p := start(t, nil, "-store", "file:"+t.TempDir())
	logged := p.logged("serving")["version"]
	if logged != version() || logged == "" {
		t.Errorf("the log says version %v", logged)
	}
	_, metrics, err := get(t, http.DefaultClient, p.url+"/metrics")
	require.NoError(t, err, metrics)
	assert.True(t, regexp.MustCompile(`\ngo_build_info\{.*version="`).MatchString(metrics), metrics)
}
