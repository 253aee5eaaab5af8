package zookeeper

import (
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// Dialer returns a dialer for zk.WithDialer, whose connections wait for a server for at most a limit, which
// should be the session timeout. Without it, zk.Conn waits 6.7 session timeouts for the handshake of a
// server that accepts connections and does not answer, before it tries another one.
func Dialer(limit time.Duration) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return limited{conn, limit}, nil
	}
}

// limited is a connection whose reads wait for at most a limit.
type limited struct {
	net.Conn
	limit time.Duration
}

// SetReadDeadline implements net.Conn.
func (c limited) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(c.limit); t.After(most) {
		t = most
	}
	return c.Conn.SetReadDeadline(t)
}
