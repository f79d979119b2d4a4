//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
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

	"github.com/seed-5394e6b1/snowflake/internal/command"
)

// If idle clients hold all connections, probes are answered at the admin address, which issues no
// IDs.
func TestProbesDoNotStarve(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--store", "file:"+t.TempDir(), "--max-connections", "5", "--admin", "127.0.0.1:0")
	admin := "http://" + p.awaitLog("probes are answered")["address"].(string)
	for range 10 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	impatient := &http.Client{Timeout: 100 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	status, _, _ := get(t, impatient, p.url+"/healthz")
	assert.Zero(t, status, "the test itself is wrong: there is room for another connection")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/id": 404, "/ids?n=1": 404, "/": 404} {
		status, text, _ := get(t, http.DefaultClient, admin+path)
		assert.Equal(t, want, status, "%s: %s", path, text)
	}
}

// gRPC health checks and reflection need no token at either address. On loopback, only names of the
// loopback interface and those of --hosts are the server's. The version is in the command's output,
// in the log and in the metrics.
func TestServerOnLoopback(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--store", "file:"+t.TempDir(), "--admin", "127.0.0.1:0", "--hosts", "ids.internal,other.internal")
	admin := p.awaitLog("probes are answered")["address"].(string)
	testGRPC(t, strings.TrimPrefix(p.url, "http://"), "", insecure.NewCredentials())
	for _, addr := range []string{strings.TrimPrefix(p.url, "http://"), admin} {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		health := grpc_health_v1.NewHealthClient(conn)
		for _, service := range []string{"", "snowflake.v1.SnowflakeService"} {
			out, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			require.NoError(t, err, "%s: %q", addr, service)
			assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, out.Status, "%s: %q", addr, service)
		}
		_, err = health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "nobody"})
		assert.Equal(t, codes.NotFound, status.Code(err))
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		ask := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
		require.NoError(t, stream.Send(ask))
		out, err := stream.Recv()
		require.NoError(t, err)
		assert.Contains(t, out.String(), "grpc.health.v1.Health")
		assert.Equal(t, addr != admin, strings.Contains(out.String(), "snowflake.v1.SnowflakeService"))
	}
	for host, want := range map[string]int{"evil.example": 421, "other.internal": 200, "localhost": 200} {
		status, _, _ := get(t, http.DefaultClient, p.url+"/id", "Host", host)
		assert.Equal(t, want, status, host)
	}
	for _, arg := range []string{"version", "--version", "-v"} {
		var out bytes.Buffer
		assert.Equal(t, command.OK, called(t.Context(), []string{arg}, os.LookupEnv, &out, &out))
		assert.Regexp(t, `^snowflaked \S+ go\S+ \w+/\w+\n$`, out.String())
	}
	assert.Equal(t, command.Version(), p.logged("serving")["version"])
	_, metrics, _ := get(t, http.DefaultClient, p.url+"/metrics")
	assert.Regexp(t, `\ngo_build_info\{.*version="`, metrics)
}
