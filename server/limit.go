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

// limited refuses requests for which there is no room. A handler takes more room if its answer is
// large.
func (l *load) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		room := &of(r.Context()).room
		room.load, room.client = l, clientOf(r)
		defer room.leave()
		if err := room.take(1); err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// room is what a request takes of a load.
type room struct {
	load   *load // nil: without limits
	client string
	taken  int64
}

// take takes room for n more until the request ends.
func (r *room) take(n int64) error {
	if r.load == nil {
		return nil
	}
	err := r.load.add(r.client, n)
	if err == nil {
		r.taken += n
	}
	return err
}

func (r *room) leave() { _ = r.load.add(r.client, -r.taken) } // returning room does not fail

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
