package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// ownAge is the longest life of one of the engine's own connections: behind a
// host name or an address that moves to another server they follow within it.
// Under Sentinels they follow at once; see follower.
const ownAge = time.Minute

const (
	// followWait is how long a call waits for the Sentinels to name the master.
	// If they do not, it goes where the last one went.
	followWait = 250 * time.Millisecond
	// followRest is how long Sentinels that gave no answer are left alone.
	followRest = time.Second
)

// follower makes the engine's own connections follow the master that Sentinels
// name. When it changes, go-redis closes the connections of the caller's client to
// the old master, but not those of a client made from the caller's options. An old
// master that is cut off from the Sentinels and its replicas, and not from this
// process, would take renewals for ever while another process holds the lease on
// the new one. So before each batch of renewals the Sentinels are asked, over the
// connection that the caller's client has to one of them, and connections to
// another server than the one they name are closed, those of subscriptions too.
type follower struct {
	check func(ctx context.Context) error // closes what goes elsewhere

	mu        sync.Mutex
	current   *masterCheck // the check under way; nil: none
	notBefore time.Time    // no check before
}

// masterCheck is one query for the address of the master.
type masterCheck struct {
	begun time.Time
	done  <-chan struct{}
}

// failoverAddr stands for the address in the options of a redis.NewFailoverClient.
const failoverAddr = "FailoverClient"

// followed finds out whether the caller's client finds its master by Sentinels, or
// by a function of the caller's own.
func (e *Engine) followed() {
	switch c := e.rdb.(type) {
	case *redis.Client:
		if c != nil && c.Options().Addr == failoverAddr {
			e.own.sentinels = &sentinelDialer{dial: c.Options().Dialer}
			e.own.follower.check = e.own.sentinels.ask
		}
	case *redis.ClusterClient:
		if c != nil && c.Options().ClusterSlots != nil {
			e.own.follower.check = e.askSlots
		}
	}
}

// follow makes own connections that go to another server than the present master
// close before it returns. It waits for the Sentinels, but not for long. Without
// Sentinels it does nothing.
func (e *Engine) follow(ctx context.Context) {
	f := &e.own.follower
	if f.check == nil {
		return
	}
	now := time.Now()
	f.mu.Lock()
	if f.current == nil && now.After(f.notBefore) {
		f.current = &masterCheck{begun: now, done: e.aside(f.answer)}
	}
	q := f.current
	f.mu.Unlock()
	if q == nil {
		return
	}
	wait := followWait - now.Sub(q.begun) // a question that hangs holds up nobody twice
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, deadline.Sub(now)/4)
	}
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-q.done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// answer asks who is the master.
func (f *follower) answer(ctx context.Context) {
	err := f.check(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = nil
	if err != nil {
		f.notBefore = time.Now().Add(followRest)
	}
}

// sentinelDialer has the own connections of a redis.NewFailoverClient, each with the address
// that the Sentinels named before it was made.
type sentinelDialer struct {
	dial dialer // asks the Sentinels, whatever address it is given

	mu    sync.Mutex
	conns map[*sentinelConn]string
}

// connect dials the master.
func (t *sentinelDialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	named, err := t.master(ctx)
	if err != nil {
		named = "" // the next answer closes the connection, if there is one
	}
	conn, err := t.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &sentinelConn{Conn: conn, of: t}
	t.mu.Lock()
	if t.conns == nil {
		t.conns = map[*sentinelConn]string{}
	}
	t.conns[c] = named
	t.mu.Unlock()
	if raw, ok := conn.(syscall.Conn); ok {
		return rawSentinelConn{c, raw}, nil
	}
	return c, nil
}

// lookNetwork is a network on which the address of a Redis leads nowhere.
const lookNetwork = "unix"

// master returns the address that the Sentinels name. The dialer of go-redis has
// no other way to tell than by the error of a connection that cannot be made: of
// one by "unix", which costs nothing. A dialer of the caller's own that connects
// whatever the network is called tells by the connection.
func (t *sentinelDialer) master(ctx context.Context) (string, error) {
	conn, err := t.dial(ctx, lookNetwork, "")
	if err == nil {
		defer conn.Close()
		return conn.RemoteAddr().String(), nil
	}
	var at *net.OpError
	if errors.As(err, &at) && at.Net == lookNetwork && at.Addr != nil {
		return at.Addr.String(), nil
	}
	return "", err
}

// ask closes the connections to a server that is not the master.
func (t *sentinelDialer) ask(ctx context.Context) error {
	named, err := t.master(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	var stale []*sentinelConn
	for c, to := range t.conns {
		if to != named {
			stale = append(stale, c)
		}
	}
	t.mu.Unlock()
	for _, c := range stale {
		_ = c.Close() // whoever uses it dials again
	}
	return nil
}

// sentinelConn is a connection to a master.
type sentinelConn struct {
	net.Conn
	of *sentinelDialer
}

// Close closes the connection; it may be called more than once.
func (c *sentinelConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// NetConn lets go-redis look at what is below.
func (c *sentinelConn) NetConn() net.Conn { return c.Conn }

// rawSentinelConn is one that go-redis can test for being open.
type rawSentinelConn struct {
	*sentinelConn
	syscall.Conn
}

// askSlots makes the own client of a redis.NewFailoverClusterClient look again who
// is the master, and closes subscriptions at others.
func (e *Engine) askSlots(ctx context.Context) error {
	cluster, ok := e.own.client().(*redis.ClusterClient)
	if !ok {
		return nil
	}
	nodes, err := masters(ctx, cluster) // which looks first
	if err != nil {
		return err
	}
	present := map[string]bool{}
	for _, n := range nodes {
		present[n.(*redis.Client).Options().Addr] = true
	}
	e.interests.retain(present)
	return nil
}

// retain closes the subscriptions at servers that are no masters.
func (a *interests) retain(masters map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.streams {
		s.mu.Lock()
		for addr, e := range s.subscriptions {
			if !masters[addr] {
				e.close()
			}
		}
		s.mu.Unlock()
	}
}
