package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// route is the address of the present master, which in production a Sentinel would report.
type route struct{ master atomic.Pointer[string] }

// dial connects to the present master; it ignores the address of the call.
func (r *route) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, *r.master.Load())
}

// prepareFailover starts a replica of node1. It replicates through a proxy, which is the
// link replica-node1 of faults.
func (st *scenarioRun) prepareFailover(ctx context.Context) error {
	if st.route != nil {
		return nil
	}
	master := st.nodes[0]
	link, err := redistest.LaunchProxy(master.Addr())
	if err != nil {
		return err
	}
	st.route = &route{}
	addr := master.Addr()
	st.route.master.Store(&addr)
	st.live.Links["replica-node1"] = link
	replica, err := st.env.replica(ctx, link.Addr())
	if err != nil {
		return err
	}
	st.live.Failovers["node1"] = func() error {
		c := redis.NewClient(&redis.Options{Addr: replica.Addr()})
		defer c.Close()
		if err := c.Do(context.WithoutCancel(ctx), "REPLICAOF", "NO", "ONE").Err(); err != nil {
			return err
		}
		addr := replica.Addr()
		st.route.master.Store(&addr)
		return nil
	}
	return nil
}

// follow makes a server a replica of master and waits until it has the master's data.
func follow(ctx context.Context, s *redistest.Server, master string) error {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	if err := c.Do(ctx, "REPLICAOF", host, port).Err(); err != nil {
		return err
	}
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		info, err := c.Info(ctx, "replication").Result()
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if strings.Contains(info, "master_link_status:up") {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("the replica does not come up: %w", context.Cause(ctx))
		}
	}
}
