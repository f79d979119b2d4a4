package server

import (
	"net/http"
	"net/netip"
	"sync"
)

// load counts what is in flight, in all and for each client.
type load struct {
	max, share int64 // the limits in all, and for a client

	mu  sync.Mutex
	now int64
	of  map[string]int64
}

// add takes room for n more of a client, or returns room if n is negative.
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

// clientOf returns the client of a request: an IPv4 address, or a /64 network of IPv6, which
// belongs to one host.
func clientOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := from.Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.Prefix(64) // never fails for IPv6
		return network.String()
	}
	return addr.String()
}

// weight returns how much n IDs count, in addition to their request.
func weight(n int64) int64 { return n / 1024 }
