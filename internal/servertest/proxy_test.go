//go:build unix

package servertest

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A server of HTTP/2 may send a PING before it answers a request. The client's pong makes no second round trip.
func TestPongIsNotARoundTrip(t *testing.T) {
	const request, answer = "a request", "an answer"
	const ping, pong = "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", "\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678"
	talk := func(c net.Conn, send, expect string) {
		_, err := io.WriteString(c, send)
		assert.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, len(expect)))
		assert.NoError(t, err)
	}
	l := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	proxy := NewProxy(t, l.Addr().String())
	client := Must(net.Dial("tcp", proxy.Addr()))(t)
	defer client.Close()
	server := Must(l.Accept())(t)
	defer server.Close()
	for n := 1; n <= 3; n++ {
		done := make(chan struct{})
		go func() {
			talk(client, request, ping)
			talk(client, pong, answer)
			close(done)
		}()
		Must(io.ReadFull(server, make([]byte, len(request))))(t)
		talk(server, ping, pong)
		Must(io.WriteString(server, answer))(t)
		<-done
		if proxy.Turns() != n {
			t.Fatalf("%d requests take %d round trips", n, proxy.Turns())
		}
	}
}
