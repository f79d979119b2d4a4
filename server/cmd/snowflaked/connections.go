package main

import (
	"net"

	"golang.org/x/net/netutil"
)

// leftOver is how many files connections leave to the store, the secrets and the program itself.
const leftOver = 50

// bound returns l with n connections at a time, or fewer if so many files may not be open. A connection beyond the
// bound waits until another one closes: so idle clients take neither the memory nor the files that the store needs.
func bound(l net.Listener, n int) net.Listener {
	return netutil.LimitListener(l, max(1, min(n, mostFiles()-leftOver)))
}
