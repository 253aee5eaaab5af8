package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/etcd"
)

// keysOf returns what etcd has of the documents of a test.
func keysOf(t testing.TB, c *clientv3.Client) *clientv3.GetResponse {
	t.Helper()
	got, err := c.Get(within(t, waitTimeout), "holdfast/"+t.Name()+"/r/", clientv3.WithPrefix())
	must(t, err)
	return got
}

func name(t testing.TB, i int) cas.Key {
	return cas.Key{Space: cas.Resources, Prefix: t.Name(), Name: fmt.Sprint(i)}
}

// change makes a change that must succeed.
func change(t testing.TB, s cas.DocumentStore, changes ...cas.Change) []cas.Outcome {
	t.Helper()
	outs, err := s.Swap(within(t, waitTimeout), changes)
	must(t, err)
	for i, o := range outs {
		if !o.Swapped {
			t.Fatalf("change %d was not made: %+v", i, o)
		}
	}
	return outs
}

// Many keys share a lease of etcd, not so many that their end would stop the server, and each lease
// lasts for as long as its keys are to be kept.
func TestKeysShareLeases(t *testing.T) {
	t.Parallel()
	const keys, keep = 2500, 10 * time.Minute
	c := single(t)
	s := etcd.NewStore(c)
	var changes []cas.Change
	for i := range keys {
		changes = append(changes, cas.Change{Key: name(t, i), Value: []byte("v"), Keep: keep})
	}
	outs := change(t, s, changes...)
	byLease := make(map[int64]int)
	for _, kv := range keysOf(t, c).Kvs {
		byLease[kv.Lease]++
	}
	if len(byLease) != 3 {
		t.Errorf("%d keys have %d leases of etcd, want 3", keys, len(byLease))
	}
	for id, n := range byLease {
		ttl, err := c.TimeToLive(within(t, waitTimeout), clientv3.LeaseID(id))
		must(t, err)
		if left := time.Duration(ttl.TTL) * time.Second; n > 1024 || left < keep || left > 3*keep {
			t.Errorf("a lease of etcd has %d keys and %v left, for keys that are kept for %v", n, left, keep)
		}
	}
	for i := range changes { // written again, they stay where they are
		changes[i].Rev = outs[i].Doc.Rev
	}
	change(t, s, changes...)
	for _, kv := range keysOf(t, c).Kvs {
		if byLease[kv.Lease] == 0 {
			t.Fatalf("%s has moved to another lease of etcd", kv.Key)
		}
	}
}

// A document that is to be kept for longer moves, and the end of its former lease of etcd does not take it away.
func TestLongerKeepMoves(t *testing.T) {
	t.Parallel()
	c := single(t)
	s := etcd.NewStore(c)
	out := change(t, s, cas.Change{Key: name(t, 0), Value: []byte("v"), Keep: time.Minute})
	former := keysOf(t, c).Kvs[0].Lease
	change(t, s, cas.Change{Key: name(t, 0), Rev: out[0].Doc.Rev, Value: []byte("w"), Keep: 24 * time.Hour})
	_, err := c.Revoke(within(t, waitTimeout), clientv3.LeaseID(former))
	must(t, err)
	got := keysOf(t, c).Kvs
	if len(got) != 1 || string(got[0].Value) != "w" || got[0].Lease == former {
		t.Fatalf("after the end of the former lease of etcd: %v", got)
	}
	ttl, err := c.TimeToLive(within(t, waitTimeout), clientv3.LeaseID(got[0].Lease))
	must(t, err)
	if ttl.TTL < 24*60*60 {
		t.Errorf("%d s are left for a document that is kept for a day", ttl.TTL)
	}
}

// Somebody revokes the leases of etcd: the documents are gone, a holder sees so at its renewal, the
// next token is higher, and nothing fails.
func TestRevoked(t *testing.T) {
	t.Parallel()
	c := single(t)
	e := etcd.New(c)
	first := hold(t, e, request(t, "a.1", 20*time.Second))
	for range 2 { // the second time the engine learns it from the change
		_, err := c.Revoke(within(t, waitTimeout), clientv3.LeaseID(keysOf(t, c).Kvs[0].Lease))
		must(t, err)
		if lost := (*engine.NotHeldError)(nil); !errors.As(renew(t, e, first, time.Second), &lost) {
			t.Error("a lease that was deleted is renewed")
		}
		next := hold(t, e, request(t, fmt.Sprintf("b.%d", first.Token), 20*time.Second))
		if next.Token <= first.Token {
			t.Errorf("token %d after %d", next.Token, first.Token)
		}
		first = next
	}
}

// Changes, documents and messages that do not fit into one transaction of etcd.
func TestLargeSwaps(t *testing.T) {
	t.Parallel()
	c := single(t)
	s := etcd.NewStore(c)
	last := cas.Address{Prefix: t.Name(), Client: "299"}
	got := make(chan string, 1000)
	l, err := s.Listen(within(t, waitTimeout), last, func(b []byte) { got <- string(b) }, func() {})
	must(t, err)
	defer func() { must(t, l.Close()) }()

	var changes []cas.Change
	var want []string
	for i := range 70 {
		text := fmt.Sprintf("%d %s", i, strings.Repeat("m", 4000))
		want = append(want, text)
		changes = append(changes, cas.Change{
			Key: name(t, i), Value: []byte("v"), Keep: time.Minute, Messages: []cas.Message{{To: last, Body: []byte(text)}},
		})
	}
	for i := range 6 {
		changes[i].Value = bytes.Repeat([]byte("x"), 500<<10)
	}
	for i := range 300 { // one change has messages to many
		text := fmt.Sprint("to ", i)
		changes[69].Messages = append(changes[69].Messages, cas.Message{To: cas.Address{Prefix: t.Name(), Client: fmt.Sprint(i)}, Body: []byte(text)})
	}
	want = append(want, "to 299")
	change(t, s, changes...)
	for range want {
		select {
		case body := <-got:
			i := 0
			for i < len(want) && want[i] != body {
				i++
			}
			if i == len(want) {
				t.Fatalf("got a message %.20q", body)
			}
			want[i] = ""
		case <-time.After(waitTimeout):
			t.Fatal("messages are missing")
		}
	}
}
