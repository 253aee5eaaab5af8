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

// Vanished implements cas.WitnessStore. None has vanished that is of another cluster: documents may have been copied
// from there without their witnesses.
func (s *keyspace) Vanished(ctx context.Context, prefix string, names []string) ([]bool, error) {
	vanished := make([]bool, 0, len(names))
	for portion := range slices.Chunk(names, readsAtOnce) {
		var ops []clientv3.Op
		for _, name := range portion {
			ops = append(ops, clientv3.OpGet(s.witness(prefix, name), clientv3.WithCountOnly()))
		}
		resp, err := s.read(ctx, clientv3.OpTxn(nil, ops, nil))
		if err != nil {
			return nil, err
		}
		for i, name := range portion {
			ours := strings.HasPrefix(name, cluster(resp.Txn().Header.ClusterId))
			vanished = append(vanished, ours && resp.Txn().Responses[i].GetResponseRange().Count == 0)
		}
	}
	return vanished, nil
}

func (s *keyspace) witness(prefix, name string) string { return s.folder(witnesses, prefix) + name }

func cluster(id uint64) string { return strconv.FormatUint(id, 16) + "-" }
