package virtual

import (
	"context"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/lab/check"
)

// anyAddr is never dialled: connections are pipes. It is an IP address because the lookup of
// a host name would leave the bubble.
const anyAddr = "127.0.0.1:6379"

// newServer returns a node with a miniredis.
func newServer(rate float64) *node {
	n := newNode(rate)
	n.server = miniredis.NewMiniRedis()
	n.server.ClockTTL(true)
	n.e, n.shut = n.dial(func(context.Context) (net.Conn, error) { return n.pipe() })
	return n
}

// pipe connects to the server.
func (n *node) pipe() (net.Conn, error) {
	c, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	return newBuffered(c), nil
}

// dial returns an engine on the server, and a function that closes its connections.
func (n *node) dial(dial func(ctx context.Context) (net.Conn, error)) (engine.Engine, func()) {
	rdb := redis.NewClient(&redis.Options{
		Addr:   anyAddr,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	return goredis.New(rdb), func() { _ = rdb.Close() }
}

// connect gives the link an engine with connections of its own.
func (l *link) connect() (shut func()) {
	l.wires = map[*wire]bool{}
	l.own, shut = l.n.dial(l.dial)
	return shut
}

// dial connects to the server unless a fault prevents it.
func (l *link) dial(ctx context.Context) (net.Conn, error) {
	switch {
	case l.p.gate() != nil || l.has(Cut) || l.n.engine() == nil:
		return nil, unavailable("connection refused")
	case l.has(Hang):
		return nil, lost(ctx)
	}
	c, err := l.n.pipe()
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wires[w] = true
	return w, nil
}

// wire is one connection of a link.
type wire struct {
	net.Conn
	l *link
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.l.mu.Lock()
	delete(w.l.wires, w)
	w.l.mu.Unlock()
	return w.Conn.Close()
}

// sever closes all open connections.
func (l *link) sever() {
	l.mu.Lock()
	var open []*wire
	for w := range l.wires {
		open = append(open, w)
	}
	l.mu.Unlock()
	for _, w := range open {
		_ = w.Close()
	}
}

// withoutTTL lists the keys of the server that never expire.
func (n *node) withoutTTL() (keys []string) {
	if n.server == nil {
		return nil
	}
	for _, key := range n.server.Keys() {
		if n.server.TTL(key) <= 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// tick is the interval at which move advances a clock that was set.
const tick = 5 * time.Millisecond

// jump sets the server's clock, which runs on from there.
func (n *node) jump(by time.Duration) {
	n.mu.Lock()
	n.ahead += by
	first := n.ticking == nil
	if first {
		n.ticking, n.halt = make(chan struct{}), make(chan struct{})
	}
	n.mu.Unlock()
	n.move()
	if first {
		go n.tick()
	}
}

// tick advances the clock until the server is stopped.
func (n *node) tick() {
	defer close(n.ticking)
	for {
		select {
		case <-n.halt:
			return
		case <-time.After(tick):
			n.move()
		}
	}
}

// move sets the clock of the server. It does not hold the mutex meanwhile: SetTime locks
// the server, which may keep its lock while it waits for a subscriber.
func (n *node) move() {
	n.mu.Lock()
	ahead := n.ahead
	n.mu.Unlock()
	n.server.SetTime(time.Now().Add(ahead))
}

// stop ends the server.
func (n *node) stop() {
	if n.server == nil {
		return
	}
	if n.ticking != nil {
		close(n.halt)
		<-n.ticking
	}
	n.shut()
	n.e.Leave("")
	n.server.Close()
	<-time.After(time.Minute) // until idle connections and workers of the drivers have ended
}

// requireTTLs reports a violation for each key without a TTL.
func (w *simulation) requireTTLs() {
	for i, n := range w.nodes {
		for _, key := range n.withoutTTL() {
			w.violations = append(w.violations, check.Violation{Check: "leftovers", At: w.rec.Now(), Resource: key,
				Text: "a key without a TTL on store " + string(rune('0'+i))})
		}
	}
}
