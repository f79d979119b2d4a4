//go:build unix && go1.25

package servertest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP proxy on the loopback interface. It can delay, stall or lose data.
type Proxy struct {
	listener net.Listener
	target   string
	only     []byte // see NewProxyOf

	turns atomic.Int64

	mu    sync.Mutex
	mode  mode
	delay time.Duration
	heal  chan struct{}     // closed when Stall ends
	conns map[net.Conn]bool // false if the connection is half-open; nil after Close
}

type mode int

const (
	passing mode = iota
	dropping
	resetting
	stalling
)

// NewProxy returns a Proxy of a server, which runs until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewProxyOf(t, target, "")
}

// NewProxyOf returns a Proxy whose Stall stalls both directions of the connections on which the
// text was sent, and no others.
func NewProxyOf(t testing.TB, target, text string) *Proxy {
	t.Helper()
	return newProxyAt(t, "127.0.0.1:0", target, text)
}

// newProxyAt returns a Proxy that listens at an address.
func newProxyAt(t testing.TB, at, target, text string) *Proxy {
	t.Helper()
	l := Must(net.Listen("tcp", at))(t)
	p := &Proxy{listener: l, target: target, only: []byte(text), heal: make(chan struct{}), conns: map[net.Conn]bool{}}
	go p.serve()
	t.Cleanup(p.Close)
	return p
}

// Close closes the listener and all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Heal()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Addr returns the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Turns returns the number of times that a client sent data first on a connection, or after the
// server. If each connection has one request at a time, this is the number of round trips. Replies
// to PINGs of HTTP/2 do not count.
func (p *Proxy) Turns() int { return int(p.turns.Load()) }

// Drop drops all data until Heal is called, on new connections, too. Heal resets the connections
// that lost data.
func (p *Proxy) Drop() { p.set(dropping, 0) }

// Reset resets all connections, and all new ones until Heal is called.
func (p *Proxy) Reset() {
	p.set(resetting, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// Swallow makes the open connections half-open: no data, and no close, is delivered on them. New
// connections work.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = false
	}
}

// swallows reports whether a connection is half-open.
func (p *Proxy) swallows(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delivers, open := p.conns[c]
	return open && !delivers
}

// Delay delivers data late, in both directions.
func (p *Proxy) Delay(d time.Duration) { p.set(passing, d) }

// Stall delays the clients' data until Heal is called, even if the clients close their connections.
func (p *Proxy) Stall() { p.set(stalling, 0) }

// Heal ends Drop, Reset, Delay and Stall.
func (p *Proxy) Heal() { p.set(passing, 0) }

func (p *Proxy) set(m mode, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == stalling && m != stalling {
		close(p.heal)
		p.heal = make(chan struct{})
	}
	p.mode, p.delay = m, delay
}

func (p *Proxy) state() (mode, time.Duration, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.delay, p.heal
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// keep registers connections for Close. It returns false after Close.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if m, _, _ := p.state(); m == resetting {
			reset(client)
			continue
		}
		go p.connect(client)
	}
}

func (p *Proxy) connect(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	if !p.keep(client, server) {
		_ = client.Close()
		_ = server.Close()
		return
	}
	var answered, named atomic.Bool
	answered.Store(true)
	go p.pipe(client, server, func(b []byte) {
		if !isPong(b) && answered.Swap(false) {
			p.turns.Add(1)
		}
	}, &named, true)
	p.pipe(server, client, func([]byte) { answered.Store(true) }, &named, false)
}

// isPong reports whether b is only the reply to a PING of HTTP/2. gRPC's servers send a PING with
// each request, to measure the bandwidth, which may arrive before the response if the disk is slow.
func isPong(b []byte) bool {
	// 8 bytes, type PING, with the flag ACK.
	return len(b) == 17 && bytes.HasPrefix(b, []byte{0, 0, 8, 6, 1})
}

// pipe delivers the data of from, until one of the two connections is closed. It sets named if
// p.only was sent. request is set for the client's data.
func (p *Proxy) pipe(from, to net.Conn, count func([]byte), named *atomic.Bool, request bool) {
	lost, stalled := false, false
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		if p.swallows(from) {
			if err != nil { // Close closes the other connection, too
				return
			}
			continue
		}
		m, delay, heal := p.state()
		if len(p.only) > 0 && bytes.Contains(b[:n], p.only) {
			named.Store(true)
		}
		switch {
		case m == dropping:
			lost = true
		case lost: // the stream has a gap
			reset(from)
			reset(to)
		case m == stalling && (named.Load() || request && len(p.only) == 0):
			stalled = true
			<-heal
		}
		time.Sleep(delay)
		if n > 0 && !lost {
			count(b[:n])
			if _, werr := to.Write(b[:n]); werr != nil {
				err = werr
			}
		}
		if err == io.EOF && request && m != dropping {
			_ = to.(*net.TCPConn).CloseWrite()
			p.forget(from)
			return
		}
		if err != nil {
			if stalled {
				time.Sleep(200 * time.Millisecond) // the server must read the data first
			}
			p.forget(from)
			p.forget(to)
			return
		}
	}
}
