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

// Host is a server with a name, behind a Proxy. The name may get another address, or none. Names
// are known only in this process, and only if Main runs the tests.
type Host struct {
	*Proxy // at the current address
	t      testing.TB
	name   string
	port   int
	moved  byte // the number of moves
}

// domain is the suffix of hosts' names.
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

// Addr returns the host's name and port.
func (h *Host) Addr() string { return fmt.Sprintf("%s:%d", h.name, h.port) }

// ip returns the current address.
func (h *Host) ip() net.IP { return net.IPv4(127, 0, 0, 2+h.moved) }

func (h *Host) at() string { return fmt.Sprintf("%v:%d", h.ip(), h.port) }

// Move gives the host another address, and closes its connections and its old address.
func (h *Host) Move() {
	h.Close()
	h.arrive()
}

// Vanish gives the host another address. At the old address all data is lost, on new connections,
// too.
func (h *Host) Vanish() {
	h.Proxy.Drop()
	h.arrive()
}

func (h *Host) arrive() {
	h.moved++
	h.Proxy = newProxyAt(h.t, h.at(), h.target, "")
	h.Found()
}

// Lose makes the name unknown, and resets the host's connections.
func (h *Host) Lose() {
	names.Delete(h.name)
	h.Reset()
}

// Found ends Lose: it makes the name known.
func (h *Host) Found() {
	names.Store(h.name, h.ip().To4())
	h.Heal()
}

// names maps the known hosts to their addresses.
var names sync.Map

// askNames, a net.Resolver's Dial, returns a connection to a name server for names.
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

// answer returns a name server's response to a message with one question (RFC 1035, section 4).
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
