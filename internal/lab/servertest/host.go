//go:build unix && go1.25

package servertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Host is a server that is reached by a name, through a Proxy. The name may get another address, or
// none. Only this process knows the name, and only if Main runs its tests.
type Host struct {
	*Proxy // at the address of now
	t      testing.TB
	name   string
	port   int
	moved  byte // how often
}

// domain ends the names of hosts.
const domain = ".servertest.test"

// NewHost returns a Host of a server, which runs until the test ends.
func NewHost(t testing.TB, target string) *Host {
	t.Helper()
	port := Port(t)
	h := &Host{t: t, name: fmt.Sprint("host", port, domain), port: port}
	h.Proxy = newProxyAt(t, h.at(), target, "")
	h.Found()
	return h
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

// Addr returns the host's name and port.
func (h *Host) Addr() string { return fmt.Sprintf("%s:%d", h.name, h.port) }

// ip returns the address of now.
func (h *Host) ip() net.IP { return net.IPv4(127, 0, 0, 2+h.moved) }

func (h *Host) at() string { return fmt.Sprintf("%v:%d", h.ip(), h.port) }

// Move gives the host another address. Its connections end, and nothing listens at the former
// address.
func (h *Host) Move() {
	h.Close()
	h.arrive()
}

// Vanish gives the host another address. At the former address, what is sent is lost, also on new
// connections.
func (h *Host) Vanish() {
	h.Proxy.Drop()
	h.arrive()
}

func (h *Host) arrive() {
	h.moved++
	h.Proxy = newProxyAt(h.t, h.at(), h.target, "")
	h.Found()
}

// Lose makes the name unknown. The host's connections end.
func (h *Host) Lose() {
	names.Delete(h.name)
	h.Reset()
}

// Found makes the name known, and ends what Lose began.
func (h *Host) Found() {
	names.Store(h.name, h.ip().To4())
	h.Heal()
}

// names has the addresses of all hosts that are known.
var names sync.Map

// askNames is for a net.Resolver: it returns a connection to a name server that knows names.
func askNames(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		for {
			var size [2]byte
			if _, err := io.ReadFull(server, size[:]); err != nil {
				return
			}
			question := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(server, question); err != nil {
				return
			}
			a := answer(question)
			if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
				return
			}
		}
	}()
	return client, nil
}

// answer returns a name server's answer to a message that has one question (RFC 1035, section 4).
func answer(message []byte) []byte {
	const head, address, unknown = 12, 1, 3
	var labels []string
	end := head
	for n := int(message[end]); n > 0; n = int(message[end]) {
		labels = append(labels, string(message[end+1:end+1+n]))
		end += 1 + n
	}
	kind := binary.BigEndian.Uint16(message[end+1:])
	end += 5 // the end of the name, the type and the class
	a := append([]byte{message[0], message[1], 0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, message[head:end]...)
	ip, known := names.Load(strings.ToLower(strings.Join(labels, ".")))
	switch {
	case !known:
		a[3] |= unknown
	case kind == address:
		a[7] = 1 // answers: one
		// The name of the question, type, class, time to live, length.
		a = append(a, 0xc0, head, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		a = append(a, ip.(net.IP)...)
	}
	return a
}
