package zookeeper

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// An Engine keeps locks in a ZooKeeper ensemble. It shares them with every engine that has the
// same root on the same ensemble. It need not be closed; close the connection after the
// clients that use it.
type Engine struct {
	*cas.Engine
}

var (
	_ engine.MarkLister = (*Engine)(nil)
	_ engine.Checker    = (*Engine)(nil)
	_ cas.LaggingStore  = (*store)(nil)
)

// An Option configures an Engine.
type Option func(*store)

// WithRoot sets the znode below which the engine keeps everything (default "/holdfast"). It is
// created if it is missing. All engines of an application need the same root.
func WithRoot(path string) Option { return func(s *store) { s.root = path } }

// WithACL sets the ACL of the znodes that the engine creates (default: zk.WorldACL(zk.PermAll)).
// Every client needs all permissions but admin. Znodes that exist keep their ACL.
func WithACL(acl ...zk.ACL) Option { return func(s *store) { s.acl = slices.Clone(acl) } }

// WithDialer sets how the engine connects to a server for sessions of its own, of which a TryLock opens one now and
// then (see "Time"; default net.DialTimeout). Give it what zk.WithDialer was given, if that is for TLS.
func WithDialer(dial zk.Dialer) Option { return func(s *store) { s.dial = dial } }

// WithAuth adds credentials to sessions of the engine's own. Give it what zk.Conn.AddAuth was given.
func WithAuth(scheme string, auth []byte) Option {
	return func(s *store) { s.credentials = append(s.credentials, credentials{scheme, slices.Clone(auth)}) }
}

// credentials are those of a session.
type credentials struct {
	scheme string
	auth   []byte
}

// New returns an engine on a connection of the caller, which may be used for other things at the
// same time. The connection may be without a session yet: calls wait for it.
func New(conn *zk.Conn, opts ...Option) *Engine {
	s := newStore(conn, opts...)
	return &Engine{cas.New(s, 0)}
}

// store is the cas.DocumentStore.
type store struct {
	conn *zk.Conn
	root string
	acl  []zk.ACL

	dial        zk.Dialer // for sessions of its own
	credentials []credentials

	shown    shownChanges
	large    largeDocuments
	calls    chan struct{} // a slot for each call under way
	posts    chan struct{} // a slot for each Swap whose messages are still to be sent
	sweeping chan struct{} // held by the sweep that is under way
	sweepNow func() bool   // reports whether a Swap is followed by a sweep
}

func newStore(conn *zk.Conn, opts ...Option) *store {
	s := &store{
		conn: conn, root: "/holdfast", acl: zk.WorldACL(zk.PermAll), dial: net.DialTimeout,
		calls: make(chan struct{}, callsAtOnce), posts: make(chan struct{}, postsAtOnce),
		sweeping: make(chan struct{}, 1), sweepNow: func() bool { return rand.N(sweepInterval) == 0 },
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Check returns the error of a nil connection or a bad option.
func (s *store) Check() error {
	switch {
	case s.conn == nil:
		return errors.New("zookeeper: the connection is nil")
	case !strings.HasPrefix(s.root, "/") || strings.HasSuffix(s.root, "/") || strings.Contains(s.root, "//"):
		return fmt.Errorf("zookeeper: WithRoot: %q is not a path such as /holdfast", s.root)
	case len(s.acl) == 0:
		return errors.New("zookeeper: WithACL: the ACL is empty, so that nobody could use the locks")
	}
	return nil
}

// ReadsMayLag implements cas.LaggingStore; see "Reads" in the package's documentation.
func (s *store) ReadsMayLag() {}
