package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/zookeeper"
)

// zookeeperNode is a ZooKeeper.
type zookeeperNode struct {
	location
	conn    *zk.Conn
	root    string
	options []zookeeper.Option
	trouble *atomic.Pointer[string] // why the last attempt to connect failed
}

// session is the session timeout: some servers do not allow less by default.
const session = 4 * time.Second

// openZooKeeper opens zk://[user:password@]host:port,…[/root]. With a user, znodes are created for
// that user alone.
func openZooKeeper(text string, t store.TLS) (store.Node, error) {
	if t != (store.TLS{}) {
		return nil, t.Apply(nil, "the client of ZooKeeper has no TLS: omit the flags of TLS")
	}
	form := formOf("ZooKeeper")
	u, hosts, err := store.ParseURL(text, form)
	if err != nil {
		return nil, err
	}
	if err := noMore(u, u.Query(), "ZooKeeper"); err != nil {
		return nil, err
	}
	n := &zookeeperNode{location: location{kind: "ZooKeeper", hosts: withPort(hosts, "2181")}, root: "/holdfast", trouble: new(atomic.Pointer[string])}
	if root := strings.TrimRight(u.Path, "/"); root != "" {
		n.root = root
		n.options = append(n.options, zookeeper.WithRoot(root))
	}
	n.conn, _, err = zk.Connect(n.hosts, session, zk.WithHostProvider(&zookeeperHosts{}), zk.WithDialer(n.dial), zk.WithLogger(silent{}))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", holdfast.ErrUnavailable, err)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		user := u.User.Username() + ":" + password
		n.options = append(n.options, zookeeper.WithACL(zk.AuthACL(zk.PermAll)...), zookeeper.WithAuth("digest", []byte(user)))
		n.authenticate(user)
	}
	return n, nil
}

// silent drops what the connection logs: errors come back.
type silent struct{}

func (silent) Printf(string, ...any) {}

// dial is the connection's dialer. It keeps the error, which the connection only logs.
func (n *zookeeperNode) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := dialAny(network, address, min(timeout, dialTimeout))
	if err != nil {
		text := err.Error()
		n.trouble.Store(&text)
	}
	return conn, err
}

// authenticate gives the connection its user before any other call is made. If no server answers
// soon, it goes on in the background: a call that comes first then is made without rights.
func (n *zookeeperNode) authenticate(user string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			err := n.conn.AddAuth("digest", []byte(user))
			if !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) {
				return // the next call has the error, if there is one
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(dialTimeout):
	}
}

// Engine implements store.Node.
func (n *zookeeperNode) Engine() engine.Engine { return zookeeper.New(n.conn, n.options...) }

// RoundTrip implements store.Node: a sync, as each read has.
func (n *zookeeperNode) RoundTrip(ctx context.Context, _ string) error {
	done := make(chan error, 1)
	go func() {
		_, err := n.conn.Sync("/")
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cause implements store.Causer.
func (n *zookeeperNode) Cause(context.Context, string) string {
	if text := n.trouble.Load(); text != nil && n.conn.State() != zk.StateHasSession {
		return *text
	}
	return ""
}

// Advise implements store.Node.
func (n *zookeeperNode) Advise(text string) store.Advice {
	switch {
	case strings.Contains(text, "zk: not authenticated"):
		return store.Advice{Refused: true, Remedy: "give a user and password that the ACLs admit in --store or HOLDFAST_STORE, zk://user:password@host:port"}
	case strings.Contains(text, "zk: client authentication failed"):
		return store.Advice{Refused: true, Remedy: "give user and password in --store or HOLDFAST_STORE"}
	}
	return store.Advice{}
}

// Close implements store.Node.
func (n *zookeeperNode) Close() error {
	n.conn.Close()
	return nil
}
