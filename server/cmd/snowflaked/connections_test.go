//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Idle connections leave the store its files: the lease is renewed, and a client that is connected gets IDs. If
// the connections are closed, other clients get IDs, too.
func TestIdleConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	t.Parallel()
	limited := func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -n 100 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	p := startAs(t, limited, nil, "-store", "file:"+t.TempDir(), "-window", "3s")
	connected := &http.Client{Timeout: patience, Transport: &http.Transport{MaxConnsPerHost: 1}} // keeps its connection
	defer connected.CloseIdleConnections()
	renewals := func() (n int) {
		t.Helper()
		_, metrics, _ := get(t, connected, p.url+"/metrics")
		_, after, _ := strings.Cut(metrics, "\nsnowflake_lease_renewals_total ")
		_, err := fmt.Sscan(after, &n)
		require.NoError(t, err, metrics)
		return n
	}
	renewals()
	var idle []net.Conn
	for range 150 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		idle = append(idle, conn)
	}
	before := renewals()
	await(t, "IDs and renewals", func() bool {
		status, _, _ := get(t, connected, p.url+"/id")
		return status == http.StatusOK && renewals() >= before+2
	})
	for _, conn := range idle {
		conn.Close()
	}
	status, text, _ := get(t, &http.Client{Timeout: patience, Transport: new(http.Transport)}, p.url+"/id")
	assert.Equal(t, http.StatusOK, status, text)
}
