package etcd

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

const (
	// readsAtOnce is how many documents one transaction reads, with two of etcd's 128
	// operations for each.
	readsAtOnce = 64
	// keysAtOnce is how many keys one call lists.
	keysAtOnce = 1000
)

// keyspace is the cas.DocumentStore in the keys of an etcd.
type keyspace struct {
	client    *clientv3.Client
	kv        clientv3.KV
	buckets   *buckets
	namespace string
	timeout   time.Duration // of one call
}

func newKeyspace(c *clientv3.Client, o options) *keyspace {
	s := &keyspace{client: c, namespace: o.namespace, timeout: o.timeout}
	if c != nil {
		s.kv, s.buckets = clientv3.NewKV(c), newBuckets(clientv3.NewLease(c))
	}
	return s
}

// Read implements cas.DocumentStore.
func (s *keyspace) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	docs := make([]cas.Doc, 0, len(reads))
	for portion := range slices.Chunk(reads, readsAtOnce) {
		var ops []clientv3.Op
		for _, r := range portion {
			ops = append(ops, s.readOps(r)...)
		}
		resp, err := s.read(ctx, clientv3.OpTxn(nil, ops, nil))
		if err != nil {
			return nil, err
		}
		found := resp.Txn().Responses
		for _, r := range portion {
			doc := docOf((*clientv3.GetResponse)(found[0].GetResponseRange()))
			if found = found[1:]; known(r) {
				if doc.Rev == 0 {
					older := (*clientv3.GetResponse)(found[0].GetResponseRange())
					if doc = docOf(older); doc.Rev == 0 && older.Count > 0 {
						doc = cas.Doc{Rev: r.Rev, Unchanged: true}
					}
				}
				found = found[1:]
			}
			docs = append(docs, doc)
		}
	}
	return docs, nil
}

// known reports whether a read has a revision that a key can have.
func known(r cas.Read) bool { return r.Rev > 1 && r.Rev < math.MaxInt64 }

// readOps returns the operations that read a document: it itself, or if its revision is known, it if it
// is newer and it if it is older, so that an unchanged value stays in etcd. (A transaction with
// comparisons for each document would count as a change.)
func (s *keyspace) readOps(r cas.Read) []clientv3.Op {
	key := s.key(r.Key)
	if !known(r) {
		return []clientv3.Op{clientv3.OpGet(key)}
	}
	rev := int64(r.Rev)
	return []clientv3.Op{clientv3.OpGet(key, clientv3.WithMinModRev(rev+1)), clientv3.OpGet(key, clientv3.WithMaxModRev(rev-1))}
}

func docOf(r *clientv3.GetResponse) cas.Doc {
	if len(r.Kvs) == 0 {
		return cas.Doc{}
	}
	return cas.Doc{Rev: uint64(r.Kvs[0].ModRevision), Value: r.Kvs[0].Value}
}

// read makes a call that changes nothing.
func (s *keyspace) read(ctx context.Context, op clientv3.Op) (resp clientv3.OpResponse, err error) {
	err = s.try(ctx, func(ctx context.Context) error {
		resp, err = s.kv.Do(ctx, op)
		return err
	})
	return resp, err
}

// try makes a call up to three times: a member that hangs or has no leader answers none, and
// the next try goes to another member.
func (s *keyspace) try(ctx context.Context, call func(context.Context) error) error {
	once := func(timeout time.Duration) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return call(ctx)
	}
	var err error
	for _, timeout := range []time.Duration{s.timeout / 10, s.timeout * 3 / 10, s.timeout * 6 / 10} {
		if err = once(timeout); err == nil || ctx.Err() != nil || !passing(err) {
			break
		}
	}
	return failure(err)
}

// Swap implements cas.DocumentStore. etcd writes every change to disk, also a Relaxed one.
func (s *keyspace) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outs := make([]cas.Outcome, 0, len(changes))
	for len(changes) > 0 {
		n := portion(changes)
		some, err := s.swap(ctx, changes[:n])
		if errors.Is(err, rpctypes.ErrLeaseNotFound) { // nothing was changed
			s.buckets.forget()
			some, err = s.swap(ctx, changes[:n])
		}
		if err != nil {
			return nil, err
		}
		outs, changes = append(outs, some...), changes[n:]
	}
	return outs, nil
}

// swap makes changes in one transaction. Copies of it do no harm: all compare the same revision, so
// at most one of them makes the change.
func (s *keyspace) swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	t := letters{space: s}
	ops := make([]clientv3.Op, len(changes))
	for i, c := range changes {
		var err error
		if ops[i], err = s.change(ctx, &t, c); err != nil {
			return nil, err
		}
	}
	op := ops[0]
	if len(ops) > 1 {
		op = clientv3.OpTxn(nil, ops, nil)
	}
	var outs []cas.Outcome
	copies := 0
	err := s.try(ctx, func(ctx context.Context) error {
		copies++
		resp, err := s.kv.Do(ctx, op)
		if err == nil {
			outs = outcomes(resp.Txn(), len(ops))
		}
		return err
	})
	if err == nil && copies > 1 {
		err = settle(outs, changes)
	}
	if err != nil {
		return nil, err
	}
	s.sendRest(ctx, &t, outs)
	return outs, nil
}

// outcomes returns those of n changes.
func outcomes(resp *clientv3.TxnResponse, n int) []cas.Outcome {
	outs := make([]cas.Outcome, n)
	for i := range outs {
		inner := resp
		if n > 1 {
			inner = (*clientv3.TxnResponse)(resp.Responses[i].GetResponseTxn())
		}
		if inner.Succeeded {
			outs[i] = cas.Outcome{Swapped: true, Doc: cas.Doc{Rev: uint64(resp.Header.Revision)}}
			continue
		}
		outs[i].Doc = docOf((*clientv3.GetResponse)(inner.Responses[0].GetResponseRange()))
	}
	return outs
}

// errUnsure is returned if an earlier copy of a change may have been made.
var errUnsure = errors.New("etcd: the document was changed, possibly by a copy of this call whose answer was lost")

// settle corrects the outcomes of a copy: a change that an earlier one has made is made.
func settle(outs []cas.Outcome, changes []cas.Change) error {
	for i, o := range outs {
		switch {
		case o.Swapped:
		case o.Doc.Rev != 0 && bytes.Equal(o.Doc.Value, changes[i].Value):
			outs[i].Swapped = true
		case o.Doc.Rev != changes[i].Rev:
			return errUnsure
		}
	}
	return nil
}

// change returns the operation of a change, with as many of its messages as there is room for.
func (s *keyspace) change(ctx context.Context, t *letters, c cas.Change) (clientv3.Op, error) {
	key := s.key(c.Key)
	lease, err := s.attach(ctx, key, c.Keep)
	if err != nil {
		return clientv3.Op{}, err
	}
	puts := []clientv3.Op{clientv3.OpPut(key, string(c.Value), clientv3.WithLease(lease))}
	for _, l := range t.carry(c.Messages) {
		puts = append(puts, clientv3.OpPut(l.key, string(l.bodies), clientv3.WithLease(lease)))
	}
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Rev))},
		puts,
		[]clientv3.Op{clientv3.OpGet(key)},
	), nil
}

// attach returns the lease of etcd to attach a key to.
func (s *keyspace) attach(ctx context.Context, key string, keep time.Duration) (id clientv3.LeaseID, err error) {
	err = s.try(ctx, func(ctx context.Context) error {
		id, err = s.buckets.attach(ctx, key, keep)
		return err
	})
	return id, err
}

// Keys implements cas.DocumentStore.
func (s *keyspace) Keys(ctx context.Context, space cas.Space, prefix string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) {
		below := s.folder(space, prefix)
		from, end := below, clientv3.GetPrefixRangeEnd(below)
		for more := true; more; {
			resp, err := s.read(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(keysAtOnce)))
			if err != nil {
				yield(cas.Key{}, err)
				return
			}
			page := resp.Get()
			for _, kv := range page.Kvs {
				if !yield(cas.Key{Space: space, Prefix: prefix, Name: strings.TrimPrefix(string(kv.Key), below)}, nil) {
					return
				}
				from = string(kv.Key) + "\x00"
			}
			more = page.More
		}
	}
}
