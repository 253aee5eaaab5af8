package redistest

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// link is one client's connection through a proxy. Each direction has a reader and a writer, so
// that a delay does not reduce the throughput and a held byte does not stop the other direction.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by cut

	once sync.Once

	// gate holds replies while a command with a point is sent, so that the whole command
	// reaches the server and none of its reply reaches the client. It guards losing.
	gate   sync.Mutex
	losing *Point

	tail []byte // end of the bytes sent to the server; owned by its writer

	mu     sync.Mutex
	server net.Conn // nil until dialled
	broken bool
}

// chunk is the result of one read, with the earliest time of its delivery.
type chunk struct {
	bytes []byte
	due   time.Time
}

// run owns the link: it dials, relays bytes until both directions have ended, and closes it.
func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.cut()
	var dialer net.Dialer
	server, err := dialer.DialContext(l.proxy.ctx, "tcp", l.proxy.target)
	if err != nil || !l.connected(server) {
		return
	}
	var directions sync.WaitGroup
	directions.Go(func() { l.relay(ToServer, l.client, server, l.pass) })
	directions.Go(func() { l.relay(ToClient, server, l.client, l.answer) })
	directions.Wait()
}

// connected stores the server's side, unless the link was cut meanwhile.
func (l *link) connected(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		reset(server)
		return false
	}
	l.server = server
	return true
}

// cut closes both sides at once and drops bytes in transit. The client is closed first: it must not
// receive what a dying server may still send.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken = true
		if l.server != nil {
			_ = l.server.Close()
		}
	})
}

// relay relays one direction from its source to its end. Like a network, it delivers bytes even if
// the source has closed meanwhile.
func (l *link) relay(d Direction, from, to net.Conn, write func(net.Conn, []byte) error) {
	const ahead = 1024 // chunks in transit in a delayed or held stream
	stream := make(chan chunk, ahead)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(stream)
		l.read(from, stream)
	})
	defer reader.Wait()
	deaf := false // whether the receiver has closed
	for c := range stream {
		deaf = deaf || !l.await(d, c.due) || write(to, c.bytes) != nil
		if deaf && d == ToServer {
			break // no server, no connection
		}
	}
	if d == ToServer && !deaf {
		// The client has closed: the server closes when it has read everything.
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		return
	}
	l.cut() // a Redis server closes both directions at once
}

func (l *link) read(from io.Reader, stream chan<- chunk) {
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case stream <- chunk{bytes: buf[:n], due: time.Now().Add(l.proxy.latency())}:
			case <-l.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// longestNap is the longest delay for which a thread sleeps: a timer is up to a millisecond late.
const longestNap = 10 * time.Millisecond

// await returns when bytes may pass, or false if the link is cut.
func (l *link) await(d Direction, due time.Time) bool {
	switch left := time.Until(due); {
	case left <= 0:
	case left < longestNap:
		nap(left)
	default:
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	for hole := l.proxy.hole(d); hole != nil; hole = l.proxy.hole(d) {
		select {
		case <-hole:
		case <-l.done:
			return false
		}
	}
	return true
}

// errLost ends relay after a Point has dropped a reply.
var errLost = errors.New("reply lost on purpose")

// pass writes commands to the server and hits their points.
func (l *link) pass(server net.Conn, b []byte) error {
	window := append(l.tail, b...)
	point := l.proxy.take(window)
	l.tail = slices.Clone(window[len(window)-min(len(window), l.proxy.reach()):])
	if point == nil {
		_, err := server.Write(b)
		return err
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	l.losing = point
	_, err := server.Write(b)
	return err
}

// answer writes replies to the client, or cuts the link at a point.
func (l *link) answer(client net.Conn, b []byte) error {
	l.gate.Lock()
	defer l.gate.Unlock()
	if l.losing == nil {
		_, err := client.Write(b)
		return err
	}
	l.cut()
	close(l.losing.hit)
	l.losing = nil
	return errLost
}
