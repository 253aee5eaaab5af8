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

// anyAddr is never dialled: connections are pipes. It has to be the literal of an
// address, since to look up a name would leave the bubble.
const anyAddr = "127.0.0.1:6379"

// newServer makes a store of the Redis kind.
func newServer(rate float64) *node {
	n := newNode(rate)
	n.server = miniredis.NewMiniRedis()
	n.server.ClockTTL(true)
	n.e, n.shut = n.dial(func(context.Context) (net.Conn, error) { return n.pipe() })
	return n
}

// pipe makes a connection to the server.
func (n *node) pipe() (net.Conn, error) {
	c, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	return newBuffered(c), nil
}

// dial makes an engine on the server. The second result ends its client.
func (n *node) dial(dial func(ctx context.Context) (net.Conn, error)) (engine.Engine, func()) {
	rdb := redis.NewClient(&redis.Options{
		Addr:   anyAddr,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	return goredis.New(rdb), func() { _ = rdb.Close() }
}

// connect gives a link its own way to the server.
func (l *link) connect() (shut func()) {
	l.wires = map[*wire]bool{}
	l.own, shut = l.n.dial(l.dial)
	return shut
}

// dial connects, if nothing is in the way.
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

// sever breaks the connections that are open.
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

// immortal lists the keys of the server that would stay for ever.
func (n *node) immortal() (keys []string) {
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

// tick is how often a clock that was set is moved on.
const tick = 5 * time.Millisecond

// jump sets the server's clock and keeps it going from there.
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

// tick moves the clock on until the server is stopped.
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

// move sets the clock. No mutex is held: the server has one of its own, which it may
// hold while it waits for a subscriber.
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
	<-time.After(time.Minute) // idle connections and workers of the drivers end
}

// eternal looks for keys without a TTL.
func (w *simulation) eternal() {
	for i, n := range w.nodes {
		for _, key := range n.immortal() {
			w.violations = append(w.violations, check.Violation{Check: "leftovers", At: w.rec.Now(), Resource: key,
				Text: "a key without a TTL on store " + string(rune('0'+i))})
		}
	}
}
