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

	"github.com/seed-5394e6b1/snowflake/server/client"
)

// Idle connections leave the store its files: a client that is connected goes on getting IDs, and when
// the connections are gone, so do others.
func TestIdleConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	t.Parallel()
	limited := func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -n 100 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	p := startAs(t, limited, nil, "-store", "file:"+t.TempDir(), "-window", "1s", "-drain", "0s")
	c, err := client.New(p.url, &client.Options{Batch: 1, MaxAge: time.Nanosecond, MaxWait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.NextID(t.Context()); err != nil {
		t.Fatal(err)
	}
	var idle []net.Conn
	for range 150 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		idle = append(idle, conn)
	}
	for begun := time.Now(); time.Since(begun) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		if id, err := c.NextID(t.Context()); err != nil {
			t.Fatal(id, err)
		}
	}
	if p.logged("lease: no IDs are issued: the window has ended") != nil {
		t.Error("the connections took the store's files")
	}
	for _, conn := range idle {
		conn.Close()
	}
	if resp, text, err := get(t, &http.Client{Timeout: patience}, p.url+"/id"); err != nil || resp.StatusCode != http.StatusOK {
		t.Error(resp, text, err)
	}
}
