package stores

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine/zookeeper"
)

// zookeeperHosts are the servers of an ensemble by their names, which dialAny looks up. zk.DNSHostProvider does so once, at
// the beginning, and fails if it finds no address of one of them.
type zookeeperHosts struct {
	mu      sync.Mutex
	names   []string
	current int
	start   int // where the round began: the server that was connected to last
}

var _ zk.HostProvider = (*zookeeperHosts)(nil)

// Init implements zk.HostProvider.
func (h *zookeeperHosts) Init(names []string) error {
	h.names = slices.Clone(names)
	rand.Shuffle(len(names), func(i, j int) { h.names[i], h.names[j] = h.names[j], h.names[i] })
	h.current, h.start = -1, -1
	return nil
}

// Len implements zk.HostProvider.
func (h *zookeeperHosts) Len() int { return len(h.names) }

// Next implements zk.HostProvider. all: the round is over.
func (h *zookeeperHosts) Next() (name string, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = (h.current + 1) % len(h.names)
	all = h.current == h.start
	h.start = max(h.start, 0)
	return h.names[h.current], all
}

// Connected implements zk.HostProvider.
func (h *zookeeperHosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start = h.current
}

// dialAny connects to an address of a host, of which a name may have several.
func dialAny(network, address string, timeout time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	var errs []error
	for i, ip := range found {
		share := time.Until(deadline) / time.Duration(len(found)-i)
		conn, err := zookeeper.Dialer(session)(network, net.JoinHostPort(ip, port), share)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
