package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// open returns a store with a connection and a root of its own on the shared server.
func open(t testing.TB, opts ...Option) *store {
	t.Helper()
	root := "/" + strings.ReplaceAll(t.Name(), "/", "-")
	return newStore(connect(t, 10*time.Second, sharedServer(t).Addr()), append([]Option{WithRoot(root)}, opts...)...)
}

func key(name string) cas.Key { return cas.Key{Space: cas.Resources, Prefix: "p", Name: name} }

func swap(t testing.TB, s cas.DocumentStore, c cas.Change) cas.Outcome {
	t.Helper()
	if c.Keep == 0 {
		c.Keep = time.Hour
	}
	outs, err := s.Swap(t.Context(), []cas.Change{c})
	if err != nil {
		t.Fatal(err)
	}
	return outs[0]
}

func read(t testing.TB, s cas.DocumentStore, k cas.Key) cas.Doc {
	t.Helper()
	docs, err := s.Read(t.Context(), []cas.Read{{Key: k}})
	if err != nil {
		t.Fatal(err)
	}
	return docs[0]
}

func (s *store) version(t testing.TB, path string) int32 {
	t.Helper()
	_, stat, err := s.conn.Exists(path)
	if err != nil {
		t.Fatal(err)
	}
	return stat.Version
}

// A document that was deleted and made anew since it was read, and changed as often as before, is
// another one, although the version of its znode is the same.
func TestSwapOfADocumentMadeAnew(t *testing.T) {
	s := open(t)
	k := key("a")
	make3 := func(values string) (rev uint64) {
		for _, v := range values {
			out := swap(t, s, cas.Change{Key: k, Rev: rev, Value: []byte(string(v)), Keep: time.Millisecond})
			if !out.Swapped {
				t.Fatalf("not swapped: %+v", out)
			}
			rev = out.Doc.Rev
		}
		return rev
	}
	old := make3("abc")
	version := s.version(t, s.path(k))
	if err := s.deleteOld(t.Context(), s.path(k), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if d := read(t, s, k); d.Rev != 0 {
		t.Fatalf("not deleted: %+v", d)
	}
	present := make3("def")
	if v := s.version(t, s.path(k)); v != version || v == 0 {
		t.Fatalf("the znode has version %d, want that of the one before, %d: the test shows nothing", v, version)
	}
	out := swap(t, s, cas.Change{Key: k, Rev: old, Value: []byte("late")})
	if out.Swapped || out.Doc.Rev != present || string(out.Doc.Value) != "f" {
		t.Errorf("a change of the document before: %+v, want the present one, %d", out, present)
	}
}

// A znode that was damaged by hand denies the calls for its resource, and those for others that come at the same time succeed.
func TestDamageIsOfOneResource(t *testing.T) {
	s := open(t)
	swap(t, s, cas.Change{Key: key("damaged"), Value: []byte("v")})
	if _, err := s.conn.Set(s.path(key("damaged")), []byte("foreign"), -1); err != nil {
		t.Fatal(err)
	}
	e := cas.New(s, 0)
	acquire := func(name string) (engine.Status, error) {
		a, err := e.Acquire(t.Context(), engine.Request{Resource: engine.Resource{Prefix: "p", Name: name}, ID: "a.1", Client: &engine.Client{ID: "a"},
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute})
		return a.Status, err
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 10 {
				if _, err := acquire("damaged"); !errors.Is(err, engine.ErrDenied) {
					t.Errorf("the damaged one: %v, want it denied", err)
				}
				name := fmt.Sprintf("%d of %d", n, i)
				if status, err := acquire(name); err != nil || status != engine.Granted {
					t.Errorf("%s: %v, %v, want it granted", name, status, err)
				}
			}
		})
		all.Go(func() {
			for n := range 10 {
				name := fmt.Sprintf("%d of %d, alone", n, i)
				if status, err := acquire(name); err != nil || status != engine.Granted {
					t.Errorf("%s: %v, %v, want it granted", name, status, err)
				}
			}
		})
	}
	all.Wait()
}

// counted is a connection that counts what it reads.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// A large document is not sent again to a client that has it, and is when it has changed.
func TestUnchangedLargeDocumentIsNotSent(t *testing.T) {
	var bytes atomic.Int64
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		c, err := net.DialTimeout(network, addr, timeout)
		return counted{c, &bytes}, err
	}
	conn, _, err := zk.Connect([]string{sharedServer(t).Addr()}, 10*time.Second, zk.WithLogger(&logger{}), zk.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := newStore(conn, WithRoot("/large"))
	const size = 200 << 10
	rev := swap(t, s, cas.Change{Key: key("a"), Value: make([]byte, size)}).Doc.Rev
	readIt := func() cas.Doc {
		t.Helper()
		docs, err := s.Read(t.Context(), []cas.Read{{Key: key("a"), Rev: rev}})
		if err != nil {
			t.Fatal(err)
		}
		return docs[0]
	}
	readIt() // its size is known from here on
	before := bytes.Load()
	for range 10 {
		if d := readIt(); !d.Unchanged || d.Rev != rev {
			t.Fatalf("revision %d, unchanged: %v", d.Rev, d.Unchanged)
		}
	}
	if n := bytes.Load() - before; n > size/10 {
		t.Errorf("10 reads of what has not changed took %d bytes, of %d", n, size)
	}
	next := swap(t, s, cas.Change{Key: key("a"), Rev: rev, Value: []byte("short")}).Doc.Rev
	if d := readIt(); d.Unchanged || d.Rev != next || string(d.Value) != "short" {
		t.Errorf("after a change: %+v", d)
	}
}

func TestSweepDeletesWhatIsOld(t *testing.T) {
	s := open(t)
	s.sweepNow = func() bool { return false }
	live := map[string]uint64{}
	for i := range 90 {
		name := strconv.Itoa(i)
		c := cas.Change{Key: key(name), Value: []byte("v"), Keep: time.Hour}
		if i%3 > 0 {
			c.Keep = -2 * sweepMargin
		}
		rev := swap(t, s, c).Doc.Rev
		if i%3 == 2 { // in use again
			c.Rev, c.Keep = rev, time.Hour
			rev = swap(t, s, c).Doc.Rev
		}
		if i%3 != 1 {
			live[name] = rev
		}
	}
	left := func() (names []string) {
		for k, err := range s.Keys(t.Context(), cas.Resources, "p") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, k.Name)
		}
		return names
	}
	for range 20 { // each sweep looks at one folder
		err := each(shards, func(int) error {
			return s.sweepShard(t.Context(), s.folder(cas.Resources, "p"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names := left()
	if len(names) != len(live) {
		t.Errorf("%d documents are left, want %d", len(names), len(live))
	}
	for _, name := range names {
		if d := read(t, s, key(name)); d.Rev != live[name] {
			t.Errorf("document %s has revision %d, want %d", name, d.Rev, live[name])
		}
	}
}

func TestSwapsSweepNowAndThen(t *testing.T) {
	s := open(t)
	s.sweepNow = func() bool { return true }
	swap(t, s, cas.Change{Key: key("old"), Value: []byte("v"), Keep: -2 * sweepMargin})
	redistest.Await(t, 10*time.Second, "the old document deleted", func() bool {
		swap(t, s, cas.Change{Key: key("old"), Rev: 1, Value: []byte("v")}) // changes nothing
		return read(t, s, key("old")).Rev == 0
	})
}

// Only the clock of the leader counts when documents are deleted.
func TestSweepUsesTheLeadersClock(t *testing.T) {
	s := open(t)
	swap(t, s, cas.Change{Key: key("a"), Value: []byte("v"), Keep: time.Millisecond})
	_, stat, err := s.conn.Get(s.path(key("a")))
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.leaderTime(t.Context(), above(s.path(key("a"))))
	if err != nil || now.UnixMilli() < stat.Mtime || now.UnixMilli() > stat.Mtime+10_000 {
		t.Fatalf("the leader's time is %v, %v; it wrote at %v", now, err, time.UnixMilli(stat.Mtime))
	}
	written := time.UnixMilli(stat.Mtime)
	for _, c := range []struct {
		now  time.Time
		left bool
	}{{written.Add(sweepMargin), true}, {written.Add(sweepMargin + time.Millisecond), false}} {
		if err := s.deleteOld(t.Context(), s.path(key("a")), c.now); err != nil {
			t.Fatal(err)
		}
		if d := read(t, s, key("a")); d.Rev != 0 != c.left {
			t.Errorf("%v after it was written: %+v", c.now.Sub(written), d)
		}
	}
}

// A document that changes between the look at it and its deletion stays.
func TestDeletionOfAChangedDocument(t *testing.T) {
	s := open(t)
	k := key("a")
	rev := swap(t, s, cas.Change{Key: k, Value: []byte("v"), Keep: -2 * sweepMargin}).Doc.Rev
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if err := s.deleteOld(t.Context(), s.path(k), time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 100 {
		out := swap(t, s, cas.Change{Key: k, Rev: rev, Value: []byte(strconv.Itoa(i)), Keep: -2 * sweepMargin})
		if rev = out.Doc.Rev; !out.Swapped && rev != 0 {
			t.Fatalf("change %d met revision %d, which nobody made", i, rev)
		}
	}
	all.Wait()
}

func TestEscape(t *testing.T) {
	names := []string{"", "%", ".", "..", "...", "a", "A", "a/b", "a%2Fb", "%2E", "a\x00", "\u00e4", "\uf8ff", "\u0085", " ", "+", "a b", strings.Repeat("/", 512)}
	seen := map[string]bool{}
	for _, name := range names {
		e := escape(name)
		if back, ok := unescape(e); !ok || back != name || seen[e] {
			t.Errorf("%q became %q, and that %q", name, e, back)
		}
		seen[e] = true
		if strings.Trim(e, ".") == "" || strings.ContainsFunc(e, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
			t.Errorf("%q became %q, which is no name of a znode", name, e)
		}
	}
	for _, foreign := range []string{"a b", "%2e", "%zz", "."} {
		if name, ok := unescape(foreign); ok {
			t.Errorf("%q is taken for %q", foreign, name)
		}
	}
}

func requireDenied(t testing.TB, err error, says string) {
	t.Helper()
	if !errors.Is(err, engine.ErrDenied) || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("got %v, want ErrDenied with %q", err, says)
	}
}

func TestRights(t *testing.T) {
	owner := connect(t, 10*time.Second, sharedServer(t).Addr())
	if err := owner.AddAuth("digest", []byte("app:secret")); err != nil {
		t.Fatal(err)
	}
	mine := newStore(owner, WithRoot("/rights/app"), WithACL(zk.AuthACL(zk.PermAll)...))
	rev := swap(t, mine, cas.Change{Key: key("a"), Value: []byte("v")}).Doc.Rev
	l, err := mine.Listen(t.Context(), cas.Address{Prefix: "p", Client: "c"}, func([]byte) {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	stranger := newStore(connect(t, 10*time.Second, sharedServer(t).Addr()), WithRoot("/rights/app"))
	_, err = stranger.Read(t.Context(), []cas.Read{{Key: key("a")}})
	requireDenied(t, err, "AddAuth")
	for _, rev := range []uint64{0, rev} {
		_, err = stranger.Swap(t.Context(), []cas.Change{{Key: key("a"), Rev: rev, Value: []byte("w"), Keep: time.Hour}})
		requireDenied(t, err, "/rights/app/r/p")
	}
	_, err = stranger.Listen(t.Context(), cas.Address{Prefix: "p", Client: "d"}, func([]byte) {}, func() {})
	requireDenied(t, err, "AddAuth")
	for _, err := range stranger.Keys(t.Context(), cas.Resources, "p") {
		requireDenied(t, err, "AddAuth")
	}
	client, err := holdfast.New(&Engine{cas.New(stranger, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Mutex("a").Lock(t.Context())
	requireDenied(t, err, "AddAuth")

	bare := newStore(connect(t, 10*time.Second, sharedServer(t).Addr()), WithRoot("/rights/bare"), WithACL(zk.AuthACL(zk.PermAll)...))
	_, err = bare.Swap(t.Context(), []cas.Change{{Key: key("a"), Value: []byte("v"), Keep: time.Hour}})
	requireDenied(t, err, "WithACL")
}

func TestForeignAndDamagedZnodes(t *testing.T) {
	s := open(t)
	swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	if _, err := s.conn.Set(s.path(key("a")), []byte("foreign"), -1); err != nil {
		t.Fatal(err)
	}
	_, err := s.Read(t.Context(), []cas.Read{{Key: key("a")}})
	requireDenied(t, err, "not a document")

	rev := swap(t, s, cas.Change{Key: key("b"), Value: []byte("v")}).Doc.Rev
	if err := s.conn.Delete(revisionPath(s.path(key("b")), rev), -1); err != nil {
		t.Fatal(err)
	}
	_, err = s.Swap(t.Context(), []cas.Change{{Key: key("b"), Rev: rev, Value: []byte("w"), Keep: time.Hour}})
	requireDenied(t, err, "damaged")
}

func TestCheck(t *testing.T) {
	conn := connect(t, 10*time.Second, sharedServer(t).Addr())
	for says, e := range map[string]*Engine{
		"connection": New(nil), "WithRoot": New(conn, WithRoot("holdfast")), "/locks/": New(conn, WithRoot("/locks/")), "WithACL": New(conn, WithACL()),
	} {
		if _, err := holdfast.New(e); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error with %q", err, says)
		}
	}
}

// callGoroutines returns the number of goroutines of calls.
func callGoroutines() int {
	stacks := make([]byte, 8<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by github.com/holdfast-go/holdfast/engine/zookeeper.call[")
}

// Calls return when their ctx ends, and leave a bounded number of goroutines, while the server
// hangs.
func callsOfAHungServer(t *testing.T, server *zkservers.Server) {
	s := newStore(connect(t, 6*time.Second, server.Addr()))
	swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	calls := []func() error{
		func() error { _, err := s.Read(ctx, []cas.Read{{Key: key("a")}}); return err },
		func() error { _, err := s.Swap(ctx, []cas.Change{{Key: key("b"), Keep: time.Hour}}); return err },
		func() error {
			_, err := s.Listen(ctx, cas.Address{Prefix: "p", Client: "c"}, func([]byte) {}, func() {})
			return err
		},
		func() error {
			for _, err := range s.Keys(ctx, cas.Resources, "p") {
				return err
			}
			return nil
		},
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range 4 * callsAtOnce {
		all.Go(func() {
			if err := calls[i%len(calls)](); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call %d: %v", i%len(calls), err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the calls took %v", took)
	}
	if n := callGoroutines(); n < callsAtOnce || n > callsAtOnce+32 { // some are of other tests
		t.Errorf("%d goroutines wait, want %d", n, callsAtOnce)
	}
	server.Resume()
	redistest.Await(t, 20*time.Second, "the end of the goroutines", func() bool { return len(s.calls) == 0 })
	if d := read(t, s, key("a")); string(d.Value) != "v" {
		t.Errorf("after the pause: %+v", d)
	}
}

// A read shows what was committed before it began, also if its server is behind.
func readIsNotBehind(t *testing.T, ensemble *zkservers.Ensemble) {
	leader := ensemble.Leader(t)
	i := slices.IndexFunc(ensemble.Servers(), func(s *zkservers.Server) bool { return s != leader })
	behind := ensemble.Servers()[i]
	writer := newStore(connect(t, 10*time.Second, leader.Addr()))
	reader := newStore(connect(t, 10*time.Second, behind.Addr()))
	k := key("a")
	doc := swap(t, writer, cas.Change{Key: k, Value: []byte("0")}).Doc
	for range 6 {
		read(t, reader, k)
		behind.Pause()
		for range 50 {
			doc = swap(t, writer, cas.Change{Key: k, Rev: doc.Rev, Value: []byte("v")}).Doc
		}
		type result struct {
			docs []cas.Doc
			err  error
		}
		found := make(chan result, 1)
		look := func() {
			docs, err := reader.Read(t.Context(), []cas.Read{{Key: k}})
			found <- result{docs, err}
		}
		go look()
		behind.Resume()
		r := <-found
		for errors.Is(r.err, zk.ErrConnectionClosed) { // the pause was long enough for the others to leave the server
			look()
			r = <-found
		}
		if r.err != nil || r.docs[0].Rev != doc.Rev {
			t.Fatalf("read %+v, %v after revision %d was committed", r.docs, r.err, doc.Rev)
		}
	}
}
