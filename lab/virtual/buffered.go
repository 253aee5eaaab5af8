package virtual

import (
	"errors"
	"net"
	"sync"
	"time"
)

// buffered is a connection to miniredis whose server never waits for the reader, as
// with the buffers of TCP. Over a bare pipe a client that writes while the server
// publishes to it would wait for the server, and the server for it, with all its
// store locked.
type buffered struct {
	net.Conn           // to the server; written to directly
	near, far net.Conn // what the server said passes here, with the deadlines of a pipe

	mu     sync.Mutex
	said   [][]byte
	more   chan struct{} // holds one value when something was said
	closed bool
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, more: make(chan struct{}, 1)}
	b.near, b.far = net.Pipe()
	go b.listen()
	go b.pass()
	return b
}

// listen reads from the server, at once.
func (b *buffered) listen() {
	for {
		chunk := make([]byte, 4096)
		n, err := b.Conn.Read(chunk)
		b.mu.Lock()
		if n > 0 {
			b.said = append(b.said, chunk[:n])
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

// pass hands it to the reader, when there is one.
func (b *buffered) pass() {
	defer b.far.Close()
	for range b.more {
		for {
			b.mu.Lock()
			said, closed := b.said, b.closed
			b.said = nil
			b.mu.Unlock()
			for _, chunk := range said {
				if _, err := b.far.Write(chunk); err != nil {
					return
				}
			}
			if len(said) == 0 && closed {
				return
			}
			if len(said) == 0 {
				break
			}
		}
	}
}

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) { return b.near.Read(p) }

// Close implements net.Conn.
func (b *buffered) Close() error { return errors.Join(b.Conn.Close(), b.near.Close()) }

// SetDeadline implements net.Conn. The pump that listens has none.
func (b *buffered) SetDeadline(t time.Time) error {
	return errors.Join(b.SetReadDeadline(t), b.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (b *buffered) SetReadDeadline(t time.Time) error { return b.near.SetReadDeadline(t) }
