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

// ownAge is the longest life of the engine's own connections. If a host name or an address
// moves to another server, they follow within that time; with Sentinels they follow at once,
// see follower.
const ownAge = time.Minute

const (
	// followWait is how long a call waits for the Sentinels to name the master. After
	// that it uses the same server as the call before.
	followWait = 250 * time.Millisecond
	// followRest is the pause after Sentinels that did not answer.
	followRest = time.Second
)

// follower makes the engine's own connections follow the master that the Sentinels name.
// When the master changes, go-redis closes the connections of the caller's client to the old
// one, but not those of a client made from the caller's options. An old master that is cut
// off from the Sentinels and its replicas, but not from this process, would accept renewals
// for ever while another process holds the lease on the new master. So before each batch of
// renewals the follower queries the Sentinels, over the caller's client's connection to one
// of them, and closes connections to other servers, including those of subscriptions.
type follower struct {
	check func(ctx context.Context) error // closes connections to other servers

	mu        sync.Mutex
	current   *masterCheck // the check under way; nil: none
	notBefore time.Time    // no check before that time
}

// masterCheck is one query for the address of the master.
type masterCheck struct {
	begun time.Time
	done  <-chan struct{}
}

// failoverAddr stands for the address in the options of a redis.NewFailoverClient.
const failoverAddr = "FailoverClient"

// followed sets up the follower if the caller's client finds its master by Sentinels or by a
// function of the caller.
func (e *Engine) followed() {
	switch c := e.rdb.(type) {
	case *redis.Client:
		if c != nil && c.Options().Addr == failoverAddr {
			e.own.sentinels = &sentinelDialer{dial: c.Options().Dialer}
			e.own.follower.check = e.own.sentinels.closeStale
		}
	case *redis.ClusterClient:
		if c != nil && c.Options().ClusterSlots != nil {
			e.own.follower.check = e.closeFormer
		}
	}
}

// follow closes own connections to servers other than the current master. It waits for the
// Sentinels, for followWait at most. Without Sentinels it does nothing.
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
	wait := followWait - now.Sub(q.begun) // a query that hangs delays the calls once, not each of them
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, deadline.Sub(now)/4)
	}
	if wait <= 0 {
		return
	}
	select {
	case <-q.done:
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// answer runs the check.
func (f *follower) answer(ctx context.Context) {
	err := f.check(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = nil
	if err != nil {
		f.notBefore = time.Now().Add(followRest)
	}
}

// sentinelDialer has the own connections if the caller's client is a redis.NewFailoverClient,
// each with the address that the Sentinels named before it was made.
type sentinelDialer struct {
	dial dialer // queries the Sentinels; the address is ignored

	mu    sync.Mutex
	conns map[*sentinelConn]string
}

// connect dials the master.
func (t *sentinelDialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	named, err := t.master(ctx)
	if err != nil {
		named = "" // the next check closes the connection
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

// lookNetwork is a network on which no connection to a Redis server can be made.
const lookNetwork = "unix"

// master returns the address that the Sentinels name. go-redis's dialer shows it only in the
// error of a connection that fails, so master dials it on lookNetwork, which costs nothing. If
// a dialer of the caller ignores the network, the connection has the address.
func (t *sentinelDialer) master(ctx context.Context) (string, error) {
	conn, err := t.dial(ctx, lookNetwork, "")
	if err == nil {
		defer conn.Close()
		return conn.RemoteAddr().String(), nil
	}
	if at, ok := errors.AsType[*net.OpError](err); ok && at.Net == lookNetwork && at.Addr != nil {
		return at.Addr.String(), nil
	}
	return "", err
}

// closeStale closes the connections to servers that are not the master.
func (t *sentinelDialer) closeStale(ctx context.Context) error {
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
		_ = c.Close() // its user dials again
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

// NetConn returns the underlying connection, for go-redis.
func (c *sentinelConn) NetConn() net.Conn { return c.Conn }

// rawSentinelConn is a sentinelConn of which go-redis can check whether it is open.
type rawSentinelConn struct {
	*sentinelConn
	syscall.Conn
}

// closeFormer makes the own client of a redis.NewFailoverClusterClient reload its masters, and
// closes subscriptions at other servers.
func (e *Engine) closeFormer(ctx context.Context) error {
	cluster, ok := e.own.client().(*redis.ClusterClient)
	if !ok {
		return nil
	}
	nodes, err := masters(ctx, cluster) // reloads them
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

// retain closes the subscriptions at servers that are not masters.
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
