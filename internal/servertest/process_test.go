//go:build unix

package servertest

import "testing"

// A port that was taken while its server is down would keep it from coming back.
func TestPortsStayTheTests(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port := Port(t)
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		if port < firstPort || port > lastPort {
			t.Fatalf("port %d is not of the servers'", port)
		}
		seen[port] = true
	}
}
