//go:build go1.25

package server_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// A client whose request does not arrive in time gets this error, without addresses behind a proxy.
// The access log does not show success.
func TestErrorOfASlowRequestHasNoAddress(t *testing.T) {
	var log bytes.Buffer
	s, url := serve(t, generator(t), &server.Options{Timeout: 500 * time.Millisecond, AccessLog: slog.New(slog.NewTextHandler(&log, nil))})
	for path, kind := range map[string]string{
		"/identify": "text/plain",
		snowflakev1connect.SnowflakeServiceBatchProcedure:  "application/json",
		snowflakev1connect.SnowflakeServiceStreamProcedure: "application/connect+json",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n", path)
		time.Sleep(300 * time.Millisecond) // the time for the answer begins with the end of the header
		fmt.Fprintf(conn, "Content-Type: %s\r\nContent-Length: 100\r\n\r\n\x00\x00\x00\x00\x0c{", kind)
		answer, _ := io.ReadAll(conn)
		assert.Contains(t, string(answer), "the request did not arrive in time", path)
		assert.NotContains(t, string(answer), "127.0.0.1", path)
		assert.NotContains(t, string(answer), "tcp", path)
	}
	assert.Contains(t, metrics(s), nothingInFlight)
	assert.NotContains(t, log.String(), "code=ok", &log)
	assert.Contains(t, log.String(), "code=http_408", &log)
}
