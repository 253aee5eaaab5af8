package etcd

import (
	"bytes"
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// etcd accepts 128 operations of each level of a transaction and those around it, and 1.5 MiB.
const (
	changesAtOnce = 64
	bytesAtOnce   = 1 << 20 // of documents
	lettersAtOnce = 48      // in one change
	letterSize    = 32 << 10
	lettersSize   = 256 << 10 // in one transaction
)

// portion returns how many of the changes fit into one transaction.
func portion(changes []cas.Change) int {
	size := 0
	for i, c := range changes {
		if size += len(c.Value) + len(c.Key.Prefix) + len(c.Key.Name); i == changesAtOnce || i > 0 && size > bytesAtOnce {
			return i
		}
	}
	return len(changes)
}

// letters are what a transaction writes beside its changes: each is a key with the messages of one
// change to one address. The transaction carries those for which it has room.
type letters struct {
	space *keyspace
	size  int                 // of those that are carried
	count map[cas.Address]int // how many are carried to each address
	rest  map[int][]letter    // those without room, by the index of their change
	next  int                 // the index of the next change
}

type letter struct {
	to     cas.Address
	key    string
	bodies []byte // one a line
}

// carry returns those of the next change that the transaction carries.
func (t *letters) carry(messages []cas.Message) []letter {
	index := t.next
	t.next++
	var fit []letter
	for _, l := range gather(messages) {
		if len(fit) == lettersAtOnce || t.size+len(l.bodies) > lettersSize {
			if t.rest == nil {
				t.rest = make(map[int][]letter)
			}
			t.rest[index] = append(t.rest[index], l)
			continue
		}
		t.size += len(l.bodies)
		fit = append(fit, t.address(l))
	}
	return fit
}

// address gives a letter a key that no other in this transaction has.
func (t *letters) address(l letter) letter {
	if t.count == nil {
		t.count = make(map[cas.Address]int)
	}
	l.key = t.space.inboxKey(l.to, t.count[l.to])
	t.count[l.to]++
	return l
}

// gather puts the messages to each address into letters, in the order of the first of each.
func gather(messages []cas.Message) []letter {
	var all []letter
	open := make(map[cas.Address]int) // the index of the latest letter to each
	for _, m := range messages {
		if i, ok := open[m.To]; ok && len(all[i].bodies)+len(m.Body) < letterSize {
			all[i].bodies = append(append(all[i].bodies, '\n'), m.Body...)
			continue
		}
		open[m.To] = len(all)
		all = append(all, letter{to: m.To, bodies: bytes.Clone(m.Body)})
	}
	return all
}

// sendRest sends the letters that had no room in the transaction, of the changes that were made. They
// may be lost.
func (s *keyspace) sendRest(ctx context.Context, t *letters, outs []cas.Outcome) {
	for i, rest := range t.rest {
		if !outs[i].Swapped {
			continue
		}
		for len(rest) > 0 {
			next := letters{space: s}
			var puts []clientv3.Op
			for len(rest) > 0 && len(puts) < lettersAtOnce && next.size <= lettersSize {
				l := next.address(rest[0])
				next.size += len(l.bodies)
				lease, err := s.attach(ctx, l.key, letterKeep)
				if err != nil {
					return
				}
				puts, rest = append(puts, clientv3.OpPut(l.key, string(l.bodies), clientv3.WithLease(lease))), rest[1:]
			}
			if _, err := s.read(ctx, clientv3.OpTxn(nil, puts, nil)); err != nil {
				return
			}
		}
	}
}
