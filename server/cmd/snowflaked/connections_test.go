//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

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
		_, metrics, err := get(t, connected, p.url+"/metrics")
		require.NoError(t, err)
		_, after, _ := strings.Cut(metrics, "\nsnowflake_lease_renewals_total ")
		_, err = fmt.Sscan(after, &n)
		require.NoError(t, err, "%v in %s", err, metrics)
		return n
	}
	renewals()
	var idle []net.Conn
	for range 150 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		idle = append(idle, conn)
	}
	issued := func() bool {
		t.Helper()
		resp, text, err := get(t, connected, p.url+"/id")
		require.NoError(t, err, text)
		return resp.StatusCode == http.StatusOK
	}
	for begun, before := time.Now(), renewals(); !issued() || renewals() < before+2; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("the connections took the store's files")
		}
	}
	for _, conn := range idle {
		conn.Close()
	}
	resp, text, err := get(t, &http.Client{Timeout: patience, Transport: new(http.Transport)}, p.url+"/id")
	require.NoError(t, err, "%v %v", resp, text)
	assert.Equal(t, http.StatusOK, resp.StatusCode, "%v %v", resp, text)
}
