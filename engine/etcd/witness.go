package etcd

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

var _ cas.WitnessStore = (*keyspace)(nil)

// A witness is a key with a lease of etcd of its own, which is never kept alive. The leader revokes it when its own
// monotonic clock has shown the TTL since it was granted; a change of the leader begins the TTL anew.
// The key, not the lease, is looked for: only reads of keys are linearizable in all versions of etcd.

// rootTTL is how long a root lasts. When it has vanished, the witnesses that were made under it are foreign, so that
// whoever waits for one waits for another.
const rootTTL = 30 * 24 * time.Hour

// Witness implements cas.WitnessStore. See under.
func (s *keyspace) Witness(ctx context.Context, prefix string, d time.Duration) (name string, lasts time.Duration, err error) {
	root, err := s.root(ctx, prefix)
	if err != nil {
		return "", 0, err
	}
	name = root + rand.Text()[:20] // 100 bits, and 64 bytes with the root at most
	lasts, err = s.leased(ctx, d, func(lease clientv3.LeaseID) clientv3.Op {
		return clientv3.OpPut(s.witness(prefix, name), "", clientv3.WithLease(lease))
	})
	return name, lasts, err
}

// root returns what names of witnesses begin with, and makes the root of a prefix if there is none, or a copy without a lease. The root shows
// that witnesses were made here: whoever copies documents, and even their keys, to another cluster does not copy its lease. The ID of a cluster
// alone does not show that, since two clusters may have the same.
func (s *keyspace) root(ctx context.Context, prefix string) (string, error) {
	key := s.witness(prefix, rootName)
	made := clientv3.NoLease
	for {
		resp, err := s.read(ctx, clientv3.OpGet(key))
		if err != nil {
			return "", err
		}
		rev := int64(0)
		if kvs := resp.Get().Kvs; len(kvs) > 0 {
			if rev = kvs[0].ModRevision; kvs[0].Lease != 0 {
				if made != clientv3.NoLease && made != clientv3.LeaseID(kvs[0].Lease) {
					_, _ = s.buckets.api.Revoke(ctx, made) // another process has made the root
				}
				return under(resp.Get().Header, kvs[0]), nil
			}
		}
		_, err = s.leased(ctx, rootTTL, func(lease clientv3.LeaseID) clientv3.Op {
			made = lease
			return clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", rev)},
				[]clientv3.Op{clientv3.OpPut(key, rand.Text()+"-", clientv3.WithLease(lease))}, nil)
		})
		if err != nil {
			return "", err
		}
	}
}

// leased does an operation with a new lease of etcd, and returns the lease's TTL.
func (s *keyspace) leased(ctx context.Context, d time.Duration, op func(clientv3.LeaseID) clientv3.Op) (time.Duration, error) {
	var lease *clientv3.LeaseGrantResponse
	err := s.try(ctx, func(ctx context.Context) (err error) { // a copy is a lease without a key
		lease, err = s.buckets.api.Grant(ctx, int64((d+time.Second-1)/time.Second))
		return err
	})
	if err != nil {
		return 0, err
	}
	err = s.try(ctx, func(ctx context.Context) error { // a copy fails when the lease has ended
		_, err := s.kv.Do(ctx, op(lease.ID))
		return err
	})
	return time.Duration(lease.TTL) * time.Second, err
}

// Witnesses implements cas.WitnessStore. One of another root is foreign, since documents may have been copied
// without it, and so is a copy of its key, which has no lease and never vanishes.
func (s *keyspace) Witnesses(ctx context.Context, prefix string, names []string) ([]cas.WitnessState, error) {
	states := make([]cas.WitnessState, 0, len(names))
	for portion := range slices.Chunk(names, readsAtOnce-1) {
		ops := []clientv3.Op{clientv3.OpGet(s.witness(prefix, rootName))}
		for _, name := range portion {
			ops = append(ops, clientv3.OpGet(s.witness(prefix, name)))
		}
		resp, err := s.read(ctx, clientv3.OpTxn(nil, ops, nil))
		if err != nil {
			return nil, err
		}
		found := func(i int) []*mvccpb.KeyValue { return resp.Txn().Responses[i].GetResponseRange().Kvs }
		root := found(0)
		for i, name := range portion {
			key, state := found(i+1), cas.WitnessStands
			switch {
			case len(root) == 0, root[0].Lease == 0, !strings.HasPrefix(name, under(resp.Txn().Header, root[0])), len(key) > 0 && key[0].Lease == 0:
				state = cas.WitnessForeign
			case len(key) == 0:
				state = cas.WitnessVanished
			}
			states = append(states, state)
		}
	}
	return states, nil
}

// under returns what the names of the witnesses begin with that were made under a root: the ID of the cluster, since a
// copy of a whole cluster has the same root with a lease, and the root's value.
func under(in *etcdserverpb.ResponseHeader, root *mvccpb.KeyValue) string {
	return strconv.FormatUint(in.ClusterId, 16) + "-" + string(root.Value)
}

// rootName is the name of the root, which no witness has.
const rootName = "root"

func (s *keyspace) witness(prefix, name string) string { return s.folder(witnesses, prefix) + name }
