package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// Timing of a subscription.
const (
	// quiet is how long a connection may receive nothing before it is tested, and how
	// long it then has to answer.
	quiet = 3 * time.Second
	// minPause and maxPause bound the pauses between attempts to connect.
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// Listen opens the stream of wake-ups for one client, over a connection of its
// own; see engine.Engine. If the connection is lost, Listen reconnects until it
// succeeds.
func (e *Engine) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, classify(ctx, ctx.Err())
	}
	e.clients.join(client)
	l := e.open(prefix, client, deliver)
	select {
	case err := <-l.opened():
		if err != nil {
			_ = l.Close()
			return nil, e.classify(ctx, err)
		}
		return l, nil
	case <-ctx.Done():
		_ = l.Close()
		return nil, classify(ctx, ctx.Err())
	}
}

// stream is a Listener with the result of its first attempt to connect, which it sends once.
type stream interface {
	engine.Listener
	opened() <-chan error
}

func (e *Engine) open(prefix, client string, deliver func(engine.Wakeup)) stream {
	if e.options.replicas.n > 0 {
		deliver = unconfirmed(deliver)
	}
	if cluster, ok := e.own.client().(*redis.ClusterClient); ok {
		return e.listenShards(cluster, prefix, client, deliver)
	}
	return e.listen(prefix, client, deliver)
}

// listener is one subscription. Its goroutine owns it; Close ends it.
type listener struct {
	channel string
	at      clientAt
	all     *live
	deliver func(engine.Wakeup)
	follow  func() // closes a connection that does not go to the current master
	pubsub  *redis.PubSub
	socket  *socket
	ctx     context.Context
	cancel  context.CancelFunc
	live    chan error // the result of the first attempt, once
	done    chan struct{}
}

func (e *Engine) listen(prefix, client string, deliver func(engine.Wakeup)) *listener {
	l := &listener{
		channel: wakeChannel(prefix, client), at: clientAt{prefix, client}, all: &e.live, deliver: deliver, socket: new(socket),
		live: make(chan error, 1), done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), socketKey{}, l.socket))
	l.ctx, l.cancel = ctx, cancel
	l.follow = func() { e.follow(ctx) }
	l.pubsub = e.own.client().Subscribe(ctx)
	go l.run()
	return l
}

func (l *listener) opened() <-chan error { return l.live }

// Close ends the stream. It may be called more than once.
func (l *listener) Close() error {
	l.cancel()
	l.socket.close()
	_ = l.pubsub.Close() // the second time it returns an error
	<-l.done
	return nil
}

func (l *listener) run() {
	defer close(l.done)
	defer l.pubsub.Close()
	defer l.all.remove(l.at, l)
	err := l.pubsub.Subscribe(l.ctx, l.channel)
	if err == nil {
		err = confirmed(l.ctx, l.pubsub)
	}
	if err == nil {
		l.all.add(l.at, l)
	}
	if l.live <- err; err == nil {
		l.receive()
	}
}

// confirmed waits until a subscription is live.
func confirmed(ctx context.Context, p *redis.PubSub) error {
	for {
		msg, err := p.ReceiveTimeout(ctx, quiet)
		if err != nil {
			return err
		}
		if s, ok := msg.(*redis.Subscription); ok && s.Kind == "subscribe" {
			return nil
		}
	}
}

// receive delivers messages until Close. After an error go-redis connects and subscribes
// again by itself, in the next call at the latest. When the server confirms that, receive
// delivers a Resync, since wake-ups may have been lost.
func (l *listener) receive() {
	pause, pinged := minPause, false
	for l.ctx.Err() == nil {
		msg, err := l.pubsub.ReceiveTimeout(l.ctx, quiet)
		switch {
		case err == nil:
			pause, pinged = minPause, false
			l.handle(msg)
		case isTimeout(err) && !pinged:
			pinged = true
			l.follow()
			_ = l.pubsub.Ping(l.ctx) // an error shows in the next receive
		default:
			l.all.remove(l.at, l)
			// The server does not answer although the connection seems open, or it has
			// refused the subscription and would leave the connection open without it.
			// go-redis itself replaces a connection that broke.
			if isTimeout(err) || isAnswer(err) {
				l.socket.drop()
			}
			pinged = false
			sleep(l.ctx, pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func (l *listener) handle(msg any) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		if msg.Kind == "subscribe" {
			l.all.add(l.at, l)
			l.deliver(engine.Wakeup{Kind: engine.Resync})
		}
	case *redis.Message:
		l.deliver(wakeupOf(msg.Payload))
	}
}

// wakeupOf parses a message. A malformed one becomes a Resync.
func wakeupOf(text string) engine.Wakeup {
	if w, err := parseWakeup(text); err == nil {
		return w
	}
	return engine.Wakeup{Kind: engine.Resync}
}

// parseWakeup parses "g token ttl id", a grant with its TTL in microseconds; "m left id", a
// waiter that a mark has ended; "c id", a turn that is called; "w id", a lease that is wanted;
// or "b id", a lease or wait that an operator broke, with a reason "r length id reason", where length is that of the ID in bytes.
func parseWakeup(text string) (engine.Wakeup, error) {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "c":
		return engine.Wakeup{Kind: engine.Resync, ID: rest}, nil
	case "w":
		return engine.Wakeup{Kind: engine.WakeWanted, ID: rest}, nil
	case "b":
		return engine.Wakeup{Kind: engine.WakeBroken, ID: rest}, nil
	case "r":
		word, rest, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n >= len(rest) || rest[n] != ' ' {
			return engine.Wakeup{}, fmt.Errorf("wake-up %q: malformed", text)
		}
		return engine.Wakeup{Kind: engine.WakeBroken, ID: rest[:n], Reason: rest[n+1:]}, nil
	case "m":
		word, id, _ := strings.Cut(rest, " ")
		left, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return engine.Wakeup{}, fmt.Errorf("wake-up %q: %w", text, err)
		}
		return engine.Wakeup{Kind: engine.WakeMarked, ID: id, TTL: time.Duration(left) * time.Microsecond}, nil
	case "g":
		word, rest, _ := strings.Cut(rest, " ")
		token, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return engine.Wakeup{}, fmt.Errorf("wake-up %q: %w", text, err)
		}
		word, id, _ := strings.Cut(rest, " ")
		ttl, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return engine.Wakeup{}, fmt.Errorf("wake-up %q: %w", text, err)
		}
		return engine.Wakeup{Kind: engine.WakeGrant, ID: id, Token: token, TTL: time.Duration(ttl) * time.Microsecond}, nil
	}
	return engine.Wakeup{}, fmt.Errorf("wake-up %q is of no known kind", text)
}

// Recalls implements engine.Recaller.
func (e *Engine) Recalls() bool { return true }
