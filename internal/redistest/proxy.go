package redistest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy relays TCP between clients and one server, and injects faults. Faults apply to open and to
// new connections, and may be combined. Its methods may be called from any goroutine.
type Proxy struct {
	target   string
	listener net.Listener
	ctx      context.Context // ends dials when the proxy closes
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // every goroutine of the proxy and its links

	mu     sync.Mutex
	links  map[*link]struct{}
	closed bool
	refuse bool
	delay  time.Duration
	holes  [2]chan struct{} // by Direction: not nil while bytes are held, closed by Heal
	points []*Point         // armed, not hit yet
}

// Direction is a direction of bytes through a proxy.
type Direction uint8

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// NewProxy relays to target, a host:port, until the test ends. If the target is down, connections
// are closed as soon as they are made.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := LaunchProxy(target)
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	t.Cleanup(p.Stop)
	return p
}

// LaunchProxy starts a proxy that several tests share. The caller must call Stop.
func LaunchProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, links: map[*link]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.tasks.Go(p.serve)
	return p, nil
}

// Addr returns the host:port that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Links returns the number of open client connections.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Delay delays all bytes from now on by d in each direction: a command with its reply takes 2 d
// more. It adds latency and does not reduce throughput. Zero ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes all connections now, on both sides. Bytes in transit are lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Refuse resets new connections, until Accept. Open connections stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = true
}

// Accept ends Refuse.
func (p *Proxy) Accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
}

// Blackhole holds all bytes of the given directions, of both if none is given,
// until Heal, like a network that fails silently. New connections are made and then hang. As in
// TCP the held bytes arrive after Heal, even if the client has closed meanwhile; Cut before Heal
// drops them.
func (p *Proxy) Blackhole(directions ...Direction) {
	if len(directions) == 0 {
		directions = []Direction{ToServer, ToClient}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		if p.holes[d] == nil {
			p.holes[d] = make(chan struct{})
		}
	}
}

// Heal ends Blackhole and delivers the held bytes.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d, hole := range p.holes {
		if hole != nil {
			close(hole)
			p.holes[d] = nil
		}
	}
}

// LoseReply delivers the next command whose bytes contain match to the server, and then cuts its
// connection instead of delivering the reply. It does so once. match is compared with the raw bytes
// of the protocol and should be unique to the command, such as a holder ID. If the command is in a
// pipeline with others, all their replies may be lost.
func (p *Proxy) LoseReply(match string) *Point {
	point := &Point{match: []byte(match), hit: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points, point)
	return point
}

// Stop ends the proxy and its connections; no goroutine is left when it returns.
func (p *Proxy) Stop() {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.cancel()
	_ = p.listener.Close()
	p.tasks.Wait()
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.admit(client)
	}
}

// admit starts a link for a new client, or refuses it.
func (p *Proxy) admit(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		reset(client)
		return
	}
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	p.links[l] = struct{}{}
	p.tasks.Go(l.run)
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// hole returns a channel that is closed when held bytes may pass; nil: none are held.
func (p *Proxy) hole(d Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holes[d]
}

// reset closes a connection so that the peer gets an error, not an end of file.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
