package virtual

import (
	"errors"
	"net"
	"sync"
	"time"
)

// buffered is a connection to miniredis with an unlimited buffer for what the server sends.
// Without a buffer, which a net.Pipe does not have, a client that writes while the server
// publishes to it blocks, and so does the server, which locks its store meanwhile.
type buffered struct {
	net.Conn           // to the server; Write uses it directly
	near, far net.Conn // a pipe, for the read deadlines: pass writes to far, Read reads near

	mu      sync.Mutex
	pending [][]byte      // received from the server and not yet passed on
	more    chan struct{} // capacity 1; has a value after pending or closed has changed
	closed  bool
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, more: make(chan struct{}, 1)}
	b.near, b.far = net.Pipe()
	go b.listen()
	go b.pass()
	return b
}

// listen reads from the server until the connection is closed.
func (b *buffered) listen() {
	for {
		chunk := make([]byte, 4096)
		n, err := b.Conn.Read(chunk)
		b.mu.Lock()
		if n > 0 {
			b.pending = append(b.pending, chunk[:n])
		}
		b.closed = b.closed || err != nil
		b.mu.Unlock()
		select {
		case b.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// pass writes what listen received to the pipe, where it waits for a Read.
func (b *buffered) pass() {
	defer b.far.Close()
	for range b.more {
		for {
			b.mu.Lock()
			pending, closed := b.pending, b.closed
			b.pending = nil
			b.mu.Unlock()
			for _, chunk := range pending {
				if _, err := b.far.Write(chunk); err != nil {
					return
				}
			}
			if len(pending) == 0 && closed {
				return
			}
			if len(pending) == 0 {
				break
			}
		}
	}
}

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) { return b.near.Read(p) }

// Close implements net.Conn.
func (b *buffered) Close() error { return errors.Join(b.Conn.Close(), b.near.Close()) }

// SetDeadline implements net.Conn. It does not affect listen.
func (b *buffered) SetDeadline(t time.Time) error {
	return errors.Join(b.SetReadDeadline(t), b.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (b *buffered) SetReadDeadline(t time.Time) error { return b.near.SetReadDeadline(t) }
