//go:build unix

package servertest

import "testing"

// If another program took the port while the server is down, the server could not start again.
func TestPortIsGivenToOneTestOnly(t *testing.T) {
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
