package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// LaunchCluster starts a cluster of masters without replicas, for several tests, and returns them
// when each has the whole table of slots. The caller must stop each of them.
func LaunchCluster(masters int) ([]*Server, error) {
	var all []*Server
	for range masters {
		s, err := Launch(WithArgs("--cluster-enabled", "yes"))
		if err != nil {
			return nil, stopAll(all, err)
		}
		all = append(all, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), topologyTimeout)
	defer cancel()
	if err := meet(ctx, all, masters); err != nil {
		return nil, stopAll(all, fmt.Errorf("redistest: a cluster of %d: %w", masters, err))
	}
	return all, nil
}

func stopAll(all []*Server, err error) error {
	for _, s := range all {
		s.Stop()
	}
	return err
}

// meet assigns the slots to the first nodes, the masters, and waits until every node knows that, and all nodes.
func meet(ctx context.Context, all []*Server, masters int) error {
	var errs []error
	for i, s := range all {
		errs = append(errs, s.do(ctx, func(ctx context.Context, c *redis.Client) error {
			var err error
			if i < masters {
				err = errors.Join(
					c.Do(ctx, "cluster", "set-config-epoch", i+1).Err(), // otherwise the nodes take time to agree on epochs
					c.Do(ctx, share(i, masters)...).Err(),
				)
			}
			return errors.Join(err, c.Do(ctx, "cluster", "meet", "127.0.0.1", all[0].port).Err())
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range all {
		if err := s.do(ctx, func(ctx context.Context, c *redis.Client) error { return awaitAll(ctx, c, len(all), masters) }); err != nil {
			return err
		}
	}
	return nil
}

// awaitAll waits until a node knows n nodes and the owner of each slot.
func awaitAll(ctx context.Context, c *redis.Client, n, masters int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := c.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r", slots)) &&
			strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", n)) &&
			strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", masters)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
