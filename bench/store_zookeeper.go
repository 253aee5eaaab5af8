package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/zookeeper"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

func zookeeperStore() store {
	return store{
		name: "ZooKeeper", disk: true, pair: 1.3, beside: "zk.NewLock",
		launch: launchZooKeeper,
		engine: func(s settings) (engine.Engine, io.Closer, error) {
			conn, err := s.zkConn()
			if err != nil {
				return nil, nil, err
			}
			return zookeeper.New(conn), closing(conn.Close), nil
		},
		commits: func(s settings) (client, error) {
			conn, err := s.zkConn()
			if err != nil {
				return nil, err
			}
			return twice(func(context.Context) error {
				_, err := conn.Set("/bare", []byte("a small value"), -1)
				return err
			}, conn.Close), nil
		},
		ring: func(s settings) (client, error) {
			conn, err := s.zkConn()
			return &zkRing{conn}, err
		},
		peers: []contender{{name: "zk.NewLock", role: peer, background: true, open: func(s settings) (client, error) {
			conn, err := s.zkConn()
			if err != nil {
				return nil, err
			}
			// Lock has no ctx: every caller gets its turn in the end.
			return simple{func(resource string) calls {
				l := zk.NewLock(conn, "/recipe-"+resource, zkRights())
				return calls{func(context.Context) error { return l.Lock() }, func(context.Context) error { return l.Unlock() }}
			}, conn.Close}, nil
		}}},
	}
}

func zkRights() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// silent drops what a connection reports, which it also returns as errors.
type silent struct{}

func (silent) Printf(string, ...any) {}

func (s settings) zkConn() (*zk.Conn, error) {
	const session = 10 * time.Second
	conn, _, err := zk.Connect(s.addrs, session, zk.WithDialer(zookeeper.Dialer(session)), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	return conn, err
}

func launchZooKeeper(context.Context) (*storeServer, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-zookeeper-")
	if err != nil {
		return nil, err
	}
	server, err := zkservers.Launch("dataDir=" + dir) // on a disk, which every change waits for
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := settings{addrs: []string{server.Addr()}}
	conn, err := s.zkConn()
	if err == nil {
		_, err = conn.Create("/bare", nil, 0, zkRights())
	}
	stop := func() {
		if conn != nil {
			conn.Close()
		}
		server.Stop()
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return &storeServer{
		addrs: s.addrs, pid: server.PID(), stop: stop,
		writes: func(context.Context) (int, error) { return int(server.Zxid()), nil },
		clear:  func(context.Context) error { return nil }, // names are used once, and few are left
	}, nil
}

// zkRing passes a turn by a write of the next member's znode, which that one watches.
type zkRing struct{ conn *zk.Conn }

func (p *zkRing) close() { p.conn.Close() }

func (p *zkRing) provide(_ context.Context, resource string) error { return p.put(resource, 0) }

// put writes the znode of a member, which is made by its first turn.
func (p *zkRing) put(resource string, i int) error {
	path := zkMemberPath(resource, i)
	_, err := p.conn.Set(path, nil, -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = p.conn.Create(path, nil, 0, zkRights())
	}
	return err
}

func zkMemberPath(resource string, i int) string { return fmt.Sprintf("/ring-%s-%d", resource, i) }

func (p *zkRing) lock(resource string) lock { return p.member(resource, 0, 1) }

func (p *zkRing) member(resource string, i, n int) lock {
	m := &zkMember{conn: p.conn, path: zkMemberPath(resource, i)}
	return calls{m.await, func(context.Context) error { return p.put(resource, (i+1)%n) }}
}

// zkMember counts the writes of its znode, each of which is a turn.
type zkMember struct {
	conn  *zk.Conn
	path  string
	taken int          // turns
	armed chan zkWatch // has an element soon
}

// zkWatch is a watch of the znode, with the number of its writes before.
type zkWatch struct {
	writes int
	next   <-chan zk.Event
	err    error
}

func (m *zkMember) await(ctx context.Context) error {
	if m.armed == nil {
		m.armed = make(chan zkWatch, 1)
		m.arm()
	}
	w := <-m.armed
	if w.err != nil {
		return w.err
	}
	if w.writes > m.taken {
		m.taken++
		m.armed <- w
		return nil
	}
	select {
	case <-w.next:
		m.taken++
		go m.arm() // while the turn lasts
		return nil
	case <-ctx.Done():
		m.armed <- w
		return ctx.Err()
	}
}

func (m *zkMember) arm() {
	exists, stat, next, err := m.conn.ExistsW(m.path)
	w := zkWatch{next: next, err: err}
	if exists {
		w.writes = int(stat.Version) + 1
	}
	m.armed <- w
}
