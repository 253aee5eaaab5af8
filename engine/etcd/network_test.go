package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The answer to a grant, and that to a release, are lost: each takes effect once.
func TestLostReply(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	proxy := redistest.NewProxy(t, all[0].Addr())
	c, direct := connect(t, []string{proxy.Addr()}), newClient(t, single(t))
	ctx := within(t, waitTimeout)
	e := etcd.New(c)
	lost := proxy.LoseReply("lost.grant")
	held := hold(t, e, request(t, "lost.grant", 20*time.Second))
	lost.RequireHit(t)
	s, err := direct.Snapshot(ctx, "stock:42")
	if err != nil || len(s.Holders) != 1 || s.Holders[0].Token != held.Token {
		t.Errorf("held with token %d, but %+v, %v", held.Token, s, err)
	}
	other := request(t, "other.1", 20*time.Second)
	if a, err := e.Acquire(ctx, other); err != nil || a.Position != 0 {
		t.Fatalf("waiting: %+v, %v", a, err)
	}
	lost = proxy.LoseReply("other.1") // which the release grants the lease to
	release(t, e, held)
	lost.RequireHit(t)
	s, err = direct.Snapshot(ctx, "stock:42")
	if err != nil || len(s.Holders) != 1 || s.Holders[0].ID != "other.1" || len(s.Waiters) != 0 {
		t.Errorf("after the release: %+v, %v", s, err)
	}
}

// The holder is cut off: it stops before another is granted the lease, and it learns the cause.
func TestPartition(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	proxy := redistest.NewProxy(t, all[0].Addr())
	cut := newClient(t, connect(t, []string{proxy.Addr()}), etcd.WithTimeout(time.Second))
	other := newClient(t, single(t))
	ctx := within(t, waitTimeout)
	ttl := holdfast.WithTTL(2 * time.Second)
	first, err := cut.Mutex("stock:42", ttl).Lock(ctx)
	must(t, err)
	var ended time.Time
	var watching sync.WaitGroup
	watching.Go(func() {
		<-first.Done()
		ended = time.Now()
	})
	proxy.Blackhole()
	second, err := other.Mutex("stock:42", ttl).Lock(ctx)
	granted := time.Now()
	must(t, err)
	watching.Wait()
	if !ended.Before(granted) {
		redistest.Broken(t, "the holder stopped %v after another was granted the lease", ended.Sub(granted))
	}
	if second.Token() <= first.Token() {
		redistest.Broken(t, "token %d after %d", second.Token(), first.Token())
	}
	proxy.Cut()
	proxy.Heal()
	must(t, second.Release(ctx))
	third, err := cut.Mutex("stock:42", ttl).Lock(ctx)
	must(t, err)
	must(t, third.Release(ctx))
}

// stream is an open stream of messages.
type stream struct {
	bodies  chan string
	resyncs chan struct{}
}

// to is the address of the tests of streams.
func to(t testing.TB) cas.Address { return cas.Address{Prefix: t.Name(), Client: "a/b"} }

func listen(t testing.TB, c *clientv3.Client) stream {
	t.Helper()
	s := stream{bodies: make(chan string, 100), resyncs: make(chan struct{}, 100)}
	l, err := etcd.NewStore(c).Listen(within(t, waitTimeout), to(t), func(b []byte) { s.bodies <- string(b) }, func() { s.resyncs <- struct{}{} })
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return s
}

// send sends a message and returns the revision.
func send(t testing.TB, c *clientv3.Client, body string) int64 {
	t.Helper()
	out := change(t, etcd.NewStore(c), cas.Change{
		Key: cas.Key{Space: cas.Resources, Prefix: t.Name(), Name: body}, Value: []byte("v"), Keep: time.Minute,
		Messages: []cas.Message{{To: to(t), Body: []byte(body)}},
	})
	return int64(out[0].Doc.Rev)
}

// next waits for a message or a resync, of which it returns the latter as "".
func (s stream) next(t testing.TB) string {
	t.Helper()
	select {
	case b := <-s.bodies:
		return b
	case <-s.resyncs:
		return ""
	case <-time.After(waitTimeout):
		t.Fatal("neither a message nor a resync")
		return ""
	}
}

// A watch that was cut off continues where it was, so that nothing is lost.
func TestWatchContinues(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	proxy := redistest.NewProxy(t, all[0].Addr())
	c := single(t)
	s := listen(t, connect(t, []string{proxy.Addr()}))
	proxy.Refuse()
	proxy.Cut()
	send(t, c, "one")
	send(t, c, "two")
	proxy.Accept()
	for _, want := range []string{"one", "two"} {
		if got := s.next(t); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What was sent while a watch was cut off has been compacted: every waiter has to poll.
func TestWatchOfCompacted(t *testing.T) {
	t.Parallel()
	server := etcdservers.Start(t, etcdservers.Config{}) // a compaction is one of all keys
	proxy := redistest.NewProxy(t, server.Addr())
	c := connect(t, []string{server.Addr()})
	s := listen(t, connect(t, []string{proxy.Addr()}))
	proxy.Refuse()
	proxy.Cut()
	send(t, c, "one")
	_, err := c.Compact(within(t, waitTimeout), send(t, c, "two"))
	must(t, err)
	proxy.Accept()
	if got := s.next(t); got != "" {
		t.Errorf("got %q, want a resync", got)
	}
	send(t, c, "three")
	if got := s.next(t); got != "three" {
		t.Errorf("got %q after the resync", got)
	}
}

// The connection of a watch is dead and nobody says so, while others live: the watch is opened on one
// of them. The client has clientv3's default settings, by which it does not notice.
func TestSilentWatch(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	proxies := []*redistest.Proxy{redistest.NewProxy(t, all[0].Addr()), redistest.NewProxy(t, all[0].Addr())}
	through := connect(t, []string{proxies[0].Addr(), proxies[1].Addr()})
	_, err = through.Get(within(t, waitTimeout), "any")
	must(t, err)
	c := single(t)
	s := listen(t, through)
	proxies[0].Blackhole()
	streams := 1
	for body := range 2 { // the watch is on one of them
		if body == 1 {
			proxies[0].Cut()
			proxies[0].Heal()
			proxies[1].Blackhole()
		}
		text := string(rune('a' + body))
		send(t, c, text)
		if got := s.next(t); got == "" {
			streams++
			again := text + " after the resync"
			send(t, c, again)
			if got := s.next(t); got != again {
				t.Errorf("got %q after the resync", got)
			}
		} else if got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if streams == 1 {
		t.Error("the watch was never on a dead connection: the test shows nothing")
	}
}

// Close of a stream ends, even if nothing answers.
func TestCloseInOutage(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	proxy := redistest.NewProxy(t, all[0].Addr())
	c := connect(t, []string{proxy.Addr()})
	l, err := etcd.NewStore(c).Listen(within(t, waitTimeout), to(t), func([]byte) {}, func() {})
	must(t, err)
	proxy.Blackhole()
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(waitTimeout):
		t.Fatal("Close hangs")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := etcd.NewStore(c).Listen(ctx, to(t), func([]byte) {}, func() {}); err == nil {
		t.Error("Listen without an answer: no error")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Listen took %v with a ctx of 200 ms", took)
	}
}
