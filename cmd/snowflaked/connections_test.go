//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Idle connections leave the store its files: the lease is renewed, and a client that is connected
// gets IDs. If the connections are closed, other clients get IDs, too.
func TestIdleConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	t.Parallel()
	limited := func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -n 100 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	p := startAs(t, limited, nil, "--store", "file:"+t.TempDir(), "--window", "1s")
	connect := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	request := func(conn net.Conn, path string) {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	}
	connected := connect() // on a busy machine, http.Client may drop a connection
	answers := bufio.NewReader(connected)
	ask := func(path string) (status int, body string) {
		t.Helper()
		request(connected, path)
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	renewals := func() (n int) {
		t.Helper()
		_, metrics := ask("/metrics")
		_, after, _ := strings.Cut(metrics, "\nsnowflake_lease_renewals_total ")
		_, err := fmt.Sscan(after, &n)
		require.NoError(t, err, metrics)
		return n
	}
	var idle []net.Conn
	for range 150 {
		idle = append(idle, connect())
		request(idle[len(idle)-1], "/healthz")
	}
	before := renewals()
	await(t, "IDs and renewals", func() bool {
		status, _ := ask("/id")
		return status == http.StatusOK && renewals() >= before+2
	})
	for _, conn := range idle {
		conn.Close()
	}
	status, text, _ := get(t, &http.Client{Timeout: patience, Transport: new(http.Transport)}, p.url+"/id")
	assert.Equal(t, http.StatusOK, status, text)
}
