package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
)

func etcdStore() store {
	return store{
		name: "etcd", disk: true, pair: 1.2, beside: "concurrency.Mutex",
		launch: launchEtcd,
		engine: func(s settings) (engine.Engine, io.Closer, error) {
			c, err := s.etcdClient()
			if err != nil {
				return nil, nil, err
			}
			return etcd.New(c), c, nil
		},
		commits: func(s settings) (client, error) {
			c, err := s.etcdClient()
			if err != nil {
				return nil, err
			}
			return twice(func(ctx context.Context) error {
				_, err := c.Put(ctx, "bare", "a small value")
				return err
			}, func() { _ = c.Close() }), nil
		},
		ring: func(s settings) (client, error) {
			c, err := s.etcdClient()
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(context.Background())
			return &etcdRing{c: c, ctx: ctx, cancel: cancel}, nil
		},
		peers: []contender{{name: "concurrency.Mutex", role: peer, background: true, open: func(s settings) (client, error) {
			c, err := s.etcdClient()
			if err != nil {
				return nil, err
			}
			return &etcdMutexes{c: c}, nil
		}}},
	}
}

func (s settings) etcdClient() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: s.addrs, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

func launchEtcd(context.Context) (*storeServer, error) {
	all, err := etcdservers.Launch(1, etcdservers.Config{Fsync: true})
	if err != nil {
		return nil, err
	}
	s := settings{addrs: all.Addrs()}
	c, err := s.etcdClient()
	if err != nil {
		all.Stop()
		return nil, err
	}
	return &storeServer{
		addrs: s.addrs, pid: all[0].PID(),
		stop: func() {
			_ = c.Close()
			all.Stop()
		},
		writes: func(ctx context.Context) (int, error) { return etcdWrites(ctx, s.addrs[0]) },
		clear: func(ctx context.Context) error {
			_, err := c.Delete(ctx, "", clientv3.WithPrefix())
			return err
		},
	}, nil
}

var committed = regexp.MustCompile(`(?m)^etcd_server_proposals_committed_total (.*)$`)

// etcdWrites counts the entries of the log.
func etcdWrites(ctx context.Context, addr string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err
	}
	m := committed.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("etcd's metrics have no proposals")
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	return int(n), err
}

// etcdMutexes are etcd's own. A session is a holder, so each lock has its own.
type etcdMutexes struct {
	c *clientv3.Client

	mu       sync.Mutex
	sessions []*concurrency.Session
}

// lock opens its session when it is first used.
func (p *etcdMutexes) lock(resource string) lock {
	var m *concurrency.Mutex
	return calls{
		lock: func(ctx context.Context) error {
			if m == nil {
				s, err := concurrency.NewSession(p.c)
				if err != nil {
					return err
				}
				p.mu.Lock()
				p.sessions = append(p.sessions, s)
				p.mu.Unlock()
				m = concurrency.NewMutex(s, resource)
			}
			return m.Lock(ctx)
		},
		unlock: func(ctx context.Context) error { return m.Unlock(ctx) },
	}
}

func (p *etcdMutexes) close() {
	for _, s := range p.sessions {
		_ = s.Close()
	}
	_ = p.c.Close()
}

// etcdRing passes a turn by a Put of the next member's key, which that one watches.
type etcdRing struct {
	c      *clientv3.Client
	ctx    context.Context
	cancel func()
}

func (p *etcdRing) close() {
	p.cancel()
	_ = p.c.Close()
}

func (p *etcdRing) put(ctx context.Context, resource string, i int) error {
	_, err := p.c.Put(ctx, etcdMemberKey(resource, i), "")
	return err
}

func etcdMemberKey(resource string, i int) string { return fmt.Sprintf("ring/%s/%d", resource, i) }

func (p *etcdRing) provide(ctx context.Context, resource string) error {
	return p.put(ctx, resource, 0)
}

func (p *etcdRing) lock(resource string) lock { return p.member(resource, 0, 1) }

func (p *etcdRing) member(resource string, i, n int) lock {
	var watch clientv3.WatchChan
	return calls{
		lock: func(ctx context.Context) error {
			if watch == nil {
				found, err := p.c.Get(ctx, etcdMemberKey(resource, i))
				if err != nil {
					return err
				}
				watch = p.c.Watch(p.ctx, etcdMemberKey(resource, i), clientv3.WithRev(found.Header.Revision+1))
				if found.Count > 0 {
					return nil
				}
			}
			select {
			case r, ok := <-watch:
				if !ok {
					return errors.New("the watch has ended")
				}
				return r.Err()
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		unlock: func(ctx context.Context) error { return p.put(ctx, resource, (i+1)%n) },
	}
}
