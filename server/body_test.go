//go:build go1.25

package server_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// A client whose request does not end gets this error before the server closes its connection,
// without addresses behind a proxy. The access log does not show success.
func TestRequestThatDoesNotEndIsAnswered(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		var log bytes.Buffer
		s, dial := serveInMemory(t, generator(t), &server.Options{AccessLog: slog.New(slog.NewTextHandler(&log, nil))})
		for path, kind := range map[string]string{
			"/identify": "text/plain",
			snowflakev1connect.SnowflakeServiceBatchProcedure:  "application/json",
			snowflakev1connect.SnowflakeServiceStreamProcedure: "application/connect+json",
		} {
			conn, err := dial(t.Context(), "", "")
			require.NoError(t, err)
			begun := time.Now()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n\x00\x00\x00\x00\x0c{", path, kind)
			answer, _ := io.ReadAll(conn)
			assert.LessOrEqual(t, time.Since(begun), 10*time.Second, path)
			assert.Contains(t, string(answer), "the request did not arrive in time", path)
			assert.NotContains(t, string(answer), "127.0.0.1", path)
			assert.NotContains(t, string(answer), "pipe", path)
			_ = conn.Close()
		}
		assert.NotContains(t, log.String(), "code=ok", &log)
		assert.Contains(t, log.String(), "code=http_408", &log)
		// Of these the body is not read.
		for request, says := range map[string]string{"GET /id": `{"id":"`, "POST /nosuch": "there is no"} {
			conn, err := dial(t.Context(), "", "")
			require.NoError(t, err)
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", request)
			answer, _ := io.ReadAll(conn)
			assert.Contains(t, string(answer), says, request)
			_ = conn.Close()
		}
		for protocol, c := range map[string]*http.Client{"HTTP/1.1": http1(t, dial), "HTTP/2": h2c(t, dial)} {
			in, out := io.Pipe()
			go func() { _, _ = out.Write([]byte("1")) }()
			resp, answer := request(t, c, http.MethodPost, inMemory+"/identify", in)
			assert.Equal(t, http.StatusRequestTimeout, resp.StatusCode, protocol)
			assert.Contains(t, answer, "the request did not arrive in time", protocol)
			_ = out.Close()
		}
		assert.Contains(t, metrics(s), nothingInFlight)
	})
}
