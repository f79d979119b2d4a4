//go:build unix && go1.25

package servertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// On a machine without MariaDB there is no user mysql. A test that creates a directory for this
// user before it looks for the server is skipped, too.
func TestDirectoryOfAServerThatIsNotInstalled(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives directories to others")
	}
	t.Setenv("CI", "")
	var of *testing.T
	t.Run("server", func(t *testing.T) {
		of = t
		Dir(t, "no-such-user")
	})
	require.True(t, of.Skipped())
}

// If another program took the port while the server is down, the server could not restart.
func TestPortIsGivenToOneTestOnly(t *testing.T) {
	seen := map[int]bool{}
	taken := func(port int) {
		t.Helper()
		require.False(t, seen[port], "port %d was given twice", port)
	}
	for range 500 {
		port := Port(t)
		taken(port)
		seen[port] = true
		addr := fmt.Sprint("127.0.0.1:", port)
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("before the server starts: %v", err)
		}
		for range 2 { // the server starts, and starts again
			server := Must(net.Listen("tcp", addr))(t)
			client := Must(net.Dial("tcp", addr))(t)
			taken(client.LocalAddr().(*net.TCPAddr).Port)
			client.Close()
			server.Close()
		}
	}
	var others []net.Listener
	defer func() {
		for _, l := range others {
			l.Close()
		}
	}()
	for range 500 {
		l := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		others = append(others, l)
		taken(l.Addr().(*net.TCPAddr).Port)
	}
}
