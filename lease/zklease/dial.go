package zklease

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Dial is for [zk.WithDialer]. It works as [net.DialTimeout] does, and gives the connection
// up if nothing is read for twice timeout after something was written. Package zk sets
// timeout to 1 s; it then goes on with the next server, in the same session. Dial also
// remembers why it failed, for the errors of the stores.
//
// Without it, package zk gives up a server that hangs after two thirds of the session
// timeout; if the server hangs while it is connected to, after almost seven times the
// session timeout.
func Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		failures.Store(address, err)
		return nil, err
	}
	failures.Delete(address)
	return &impatient{Conn: c, patience: 2 * timeout}, nil
}

// failures has, for each address, why the last attempt to connect failed. Package zk writes
// this only into its log.
var failures sync.Map // of errors

func failure(address string) error {
	err, _ := failures.Load(address)
	why, _ := err.(error)
	return why
}

// impatient is a connection on which everything that is written has to be answered.
type impatient struct {
	net.Conn
	patience time.Duration

	mu  sync.Mutex
	due time.Time // when something must have been read; zero if nothing was written since
	set time.Time // the deadline that package zk set
}

func (c *impatient) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.due.IsZero() {
		c.due = time.Now().Add(c.patience)
	}
	err := c.arm()
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *impatient) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		// If this process was paused meanwhile, the answer has arrived.
		if err := c.Conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			return 0, err
		}
		n, err = c.Conn.Read(b)
	}
	if n > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.due = time.Time{}
		c.arm() // if this fails, so will the next Read
	}
	return n, err
}

func (c *impatient) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = t
	return c.arm()
}

// arm sets the earlier of both deadlines. c.mu must be held.
func (c *impatient) arm() error {
	t := c.set
	if t.IsZero() || !c.due.IsZero() && c.due.Before(t) {
		t = c.due
	}
	return c.Conn.SetReadDeadline(t)
}
