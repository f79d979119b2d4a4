package server

import (
	"net/http"
	"net/netip"
	"sync"
)

// load is what is in flight, in all and of each client.
type load struct {
	max, share int64 // the most in all, and of a client

	mu  sync.Mutex
	now int64
	of  map[string]int64
}

// add takes room for n more of a client's, or gives room back if n is negative.
func (l *load) add(client string, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.now+n > l.max {
		return errBusy
	}
	if n > 0 && l.of[client]+n > l.share {
		return errShare
	}
	l.now += n
	if l.of[client] += n; l.of[client] == 0 {
		delete(l.of, client)
	}
	return nil
}

func (l *load) inFlight() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.now)
}

// clientOf names who sends a request: an address, or a network of addresses that belong to one
// host.
func clientOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := from.Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.Prefix(64) // it fails for no address
		return network.String()
	}
	return addr.String()
}

// weight is what n IDs count beside the request that asks for them.
func weight(n int64) int64 { return n / 1024 }
