package server

import (
	"net/http"
	"net/netip"
	"sync"
)

// load counts the weights of the requests in flight, in total and for each client.
type load struct {
	max, share int64 // the limits in total, and for a client

	mu  sync.Mutex
	now int64
	of  map[string]int64
}

// limited refuses requests over the limits. A handler takes more room for a large answer.
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

// room is a request's part of a load.
type room struct {
	load   *load // nil means no limits
	client string
	taken  int64
}

// take takes room for n until the request ends.
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

// add takes room for n for a client, or gives it back if n is negative.
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

// clientOf returns the client of a request: an IPv4 address, or a /64 network of IPv6, which one
// host may use entirely.
func clientOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := from.Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.Prefix(64) // does not fail for IPv6
		return network.String()
	}
	return addr.String()
}

// weight returns the weight of n IDs, in addition to that of their request.
func weight(n int64) int64 { return n / 1024 }
