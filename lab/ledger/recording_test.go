package ledger

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// record begins to record what a store does.
func record(t *testing.T, l *Ledger, server stores.Server) Recording {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var r Recording
	switch u.Scheme {
	case "postgres":
		r, err = l.RecordPostgres(t.Context(), server.URL())
	case "mysql":
		r, err = l.RecordMariaDB(t.Context(), u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/"))
	case "sqlite":
		var ts unix.Timespec
		if err = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err == nil {
			r, err = l.RecordSQLite(t.Context(), u.Path, time.Duration(ts.Nano())-l.now())
		}
	case "etcd":
		r, err = l.RecordEtcd(t.Context(), strings.Split(u.Host, ","))
	case "zk":
		r = l.RecordZooKeeper(server.(stores.Logged).LogDir())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// On each store a Ledger has what a client did, in two recordings one after the other, and over a restart of the server:
// its trust windows agree with it, and longer ones do not.
func TestRecordings(t *testing.T) {
	for _, s := range stores.Others() {
		if s.Scripts || s.Name == "zookeeper-three" || s.Name == "etcd-three" {
			continue // a Redis is recorded by MONITOR; what three members add is not of the recording
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			server, err := s.Launch()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Stop)
			for _, prefix := range []string{"first", "app"} {
				judged := testRecording(t, server, prefix)
				if looks := s.Name == "etcd" || s.Name == "sqlite"; !looks && judged != 3 { // there a slow machine makes times vague
					t.Errorf("%d windows count", judged)
				}
			}
		})
	}
}

// testRecording returns how many windows were compared and count.
func testRecording(t *testing.T, server stores.Server, prefix string) (judged int) {
	const ttl = 3 * time.Second
	l := New(prefix, time.Now())
	r := record(t, l, server)
	opened, err := stores.Open(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	c, err := holdfast.New(opened.Engine, holdfast.WithPrefix(prefix))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var ops []history.Op
	claim := func(kind history.Kind, lease *holdfast.Lease, resource string, call time.Duration) {
		ops = append(ops, history.Op{Client: "w1", Kind: kind, Resource: resource, Holder: lease.HolderID(), Store: lease.HolderID(),
			Outcome: history.OK, Token: lease.Token(), Call: call, Return: l.now(), Until: lease.Deadline().Sub(l.began)})
	}
	lock := func(resource string) *holdfast.Lease {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		call := l.now()
		lease, err := c.Mutex(resource, holdfast.WithTTL(ttl)).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		claim(history.Acquire, lease, resource, call)
		return lease
	}
	release := func(lease *holdfast.Lease, resource string) {
		t.Helper()
		claim(history.Release, lease, resource, l.now())
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := lock("one 1/%")
	deadline := before.Deadline()
	redistest.Await(t, 5*time.Second, "a renewal", func() bool { return before.Deadline().After(deadline) })
	claim(history.Enter, before, "one 1/%", l.now())
	release(before, "one 1/%")
	server.Kill()
	server.Restart()
	release(lock("two"), "two")
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	judged, found := Judge(ops, ttl, []*Ledger{l})
	if len(found) > 0 {
		t.Errorf("%v\n%s", found, strings.Join(l.Commands(), "\n"))
	}
	for i := range ops {
		ops[i].Until = ops[i].Return + 2*ttl
	}
	if _, found := Judge(ops, ttl, []*Ledger{l}); len(found) != 3 {
		t.Errorf("windows of two TTLs: %v\n%s", found, strings.Join(l.Commands(), "\n"))
	}
	if changes := l.of("one 1/%", before.HolderID()); len(changes) != 1 || len(changes[0]) < 3 {
		t.Errorf("a lease that was granted, renewed and released has %v", changes)
	}
	return judged
}

// A recording of a store that is not there fails.
func TestRecordingFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	l := New("app", time.Now())
	if _, err := l.RecordPostgres(ctx, "postgres://127.0.0.1:1/postgres"); err == nil {
		t.Error("recorded a PostgreSQL that is not there")
	}
	if _, err := l.RecordMariaDB(ctx, "127.0.0.1:1", "root", "mysql"); err == nil {
		t.Error("recorded a MariaDB that is not there")
	}
	if _, err := l.RecordSQLite(ctx, t.TempDir()+"/none.db", 0); err == nil {
		t.Error("recorded a file without documents")
	}
	if _, err := l.RecordEtcd(ctx, []string{"127.0.0.1:1"}); err == nil {
		t.Error("recorded an etcd that is not there")
	}
	if err := l.RecordZooKeeper(t.TempDir()).Close(ctx); err == nil {
		t.Error("recorded a ZooKeeper that has no log")
	}
}
