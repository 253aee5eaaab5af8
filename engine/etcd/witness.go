package etcd

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

var _ cas.WitnessStore = (*keyspace)(nil)

// A witness is a key with a lease of etcd of its own, which is never kept alive. The leader revokes it when its own
// monotonic clock has shown the TTL since it was granted; a change of the leader begins the TTL anew.
// The key, not the lease, is looked for: only reads of keys are linearizable in all versions of etcd.

// Witness implements cas.WitnessStore. The name begins with the ID of the cluster.
func (s *keyspace) Witness(ctx context.Context, prefix string, d time.Duration) (name string, lasts time.Duration, err error) {
	var lease *clientv3.LeaseGrantResponse
	err = s.try(ctx, func(ctx context.Context) error { // a copy is a lease without a key
		lease, err = s.buckets.api.Grant(ctx, int64((d+time.Second-1)/time.Second))
		return err
	})
	if err != nil {
		return "", 0, err
	}
	name = cluster(lease.ResponseHeader.ClusterId) + rand.Text()
	put := clientv3.OpPut(s.witness(prefix, name), "", clientv3.WithLease(lease.ID))
	err = s.try(ctx, func(ctx context.Context) error { // a copy fails when the lease has ended
		_, err := s.kv.Do(ctx, put)
		return err
	})
	return name, time.Duration(lease.TTL) * time.Second, err
}

// Witnesses implements cas.WitnessStore. One of another cluster is foreign, since documents may have been copied from there
// without it, and so is a copy of its key, which has no lease and never vanishes.
func (s *keyspace) Witnesses(ctx context.Context, prefix string, names []string) ([]cas.WitnessState, error) {
	states := make([]cas.WitnessState, 0, len(names))
	for portion := range slices.Chunk(names, readsAtOnce) {
		var ops []clientv3.Op
		for _, name := range portion {
			ops = append(ops, clientv3.OpGet(s.witness(prefix, name)))
		}
		resp, err := s.read(ctx, clientv3.OpTxn(nil, ops, nil))
		if err != nil {
			return nil, err
		}
		for i, name := range portion {
			found := resp.Txn().Responses[i].GetResponseRange().Kvs
			state := cas.WitnessStands
			switch {
			case !strings.HasPrefix(name, cluster(resp.Txn().Header.ClusterId)), len(found) > 0 && found[0].Lease == 0:
				state = cas.WitnessForeign
			case len(found) == 0:
				state = cas.WitnessVanished
			}
			states = append(states, state)
		}
	}
	return states, nil
}

func (s *keyspace) witness(prefix, name string) string { return s.folder(witnesses, prefix) + name }

func cluster(id uint64) string { return strconv.FormatUint(id, 16) + "-" }
