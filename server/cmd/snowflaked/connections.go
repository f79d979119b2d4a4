package main

import (
	"net"
	"sync"
)

// bounded is a listener whose connections are bounded in number. A connection beyond the bound waits until
// another one closes: so idle clients take neither the memory nor the files that the store needs.
type bounded struct {
	net.Listener
	open chan struct{} // has room for all connections
}

// leftOver is how many files connections leave to the store, the secrets and the program itself.
const leftOver = 50

// bound returns l with n connections at a time, or fewer if so many files may not be open.
func bound(l net.Listener, n int) net.Listener {
	return bounded{l, make(chan struct{}, max(1, min(n, mostFiles()-leftOver)))}
}

func (l bounded) Accept() (net.Conn, error) {
	l.open <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &connection{Conn: conn, closed: sync.OnceFunc(func() { <-l.open })}, nil
}

// connection makes room when it is closed.
type connection struct {
	net.Conn
	closed func()
}

func (c *connection) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
