package live

import (
	"net"
	"sync"
	"time"
)

// timedConn is a connection of a worker to its store that calls late with each time in which a
// request was without a response for leastStall or longer: the server, one process of it or the
// machine did not run. It must be a connection on which each request has a response.
type timedConn struct {
	net.Conn
	late func(from, to time.Time)

	mu   sync.Mutex
	sent time.Time // the first request without a response; zero: there is none
}

// Write implements net.Conn.
func (c *timedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.sent.IsZero() {
		c.sent = time.Now()
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.end()
	return n, err
}

// Close implements net.Conn.
func (c *timedConn) Close() error {
	c.end()
	return c.Conn.Close()
}

// end ends the round trip.
func (c *timedConn) end() {
	now := time.Now()
	c.mu.Lock()
	sent := c.sent
	c.sent = time.Time{}
	c.mu.Unlock()
	if !sent.IsZero() && now.Sub(sent) >= leastStall {
		c.late(sent, now)
	}
}
