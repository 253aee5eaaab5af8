package stores

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// No part of a URL that cannot be used is shown, if it may be a password.
func TestBadURLsShowNoPassword(t *testing.T) {
	o := store.Opener{Drivers: Drivers()}
	for _, text := range []string{
		"postgres://app:s3cret@host:port/db", "postgres://app:s3%cret@host/db", "postgres://app:s3cret@/db", "postgres://app:s3/cret@host/db",
		"postgres://app:s3cret@host/db?sslmode=s3@cret", "postgres://app:s3#cret@host/db", "postgres://app:s3@cret@host/db", "postgres://:s3cret@host/db,postgres://:s3cret@host/other",
		"mysql://app:s3cret@host", "mysql://app:s3cret@host/a/b", "mysql://app:s3cret@a,b/db", "mysql://app:s3%cret@host/db", "mysql://app:s3cret@host/db?timeout=x@s3cret",
		"sqlite://app:s3cret@/path", "sqlite://s3cret", "sqlite:///path?mode=s3cret", "sqlite:///folder/",
		"etcd://app:s3cret@a,,b", "etcd://app:s3cret@a/path", "etcd://app:s3cret@a?nosuch=1", "etcd://app:s3cret@a?tls=perhaps", "etcd://app:s3%cret@a",
		"postgres://app:12/s3cret@host/db", "postgres://app:12#s3cret@host/db", "mysql://app:12/s3cret@host/db", "etcd://app:12/s3cret@host", "zk://app:12/s3cret@host",
		"zk://app:s3cret@a,,b", "zk://app:s3cret@a?nosuch=1", "zk://app:s3%cret@a", "nosuch://app:s3cret@a",
	} {
		st, err := o.Open(text)
		if err == nil {
			st.Close()
		}
		if _, ok := errors.AsType[*store.Error](err); !ok {
			t.Errorf("Open(%q): %v, want a *store.Error", text, err)
			continue
		}
		if strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret") {
			t.Errorf("Open(%q) shows the password: %v", text, err)
		}
		if !strings.Contains(err.Error(), "write ") && !strings.Contains(err.Error(), "give ") && !strings.Contains(err.Error(), "end it ") {
			t.Errorf("Open(%q) does not say what to do: %v", text, err)
		}
	}
}

func TestNamesWithoutCredentials(t *testing.T) {
	o := store.Opener{Drivers: Drivers()}
	for text, want := range map[string]string{
		"postgres://app:s3cret@a,b:7/locks":                  "PostgreSQL at a:5432, b:7, database locks",
		"postgresql:///locks?host=/run/pg&user=app":          "PostgreSQL at /run/pg:5432, database locks",
		"mariadb://app:s3cret@a/locks":                       "MySQL at a:3306, database locks",
		"mysql://app:s3cret@localhost/locks?socket=/run/sql": "MySQL at /run/sql, database locks",
		"sqlite:///var/lib/a%20b.db":                         "SQLite in /var/lib/a b.db",
		"etcd://app:s3cret@a,b:7?tls=true":                   "etcd at a:2379, b:7",
		"zk://127.0.0.1,[::1]:7/apps":                        "ZooKeeper at 127.0.0.1:2181, [::1]:7",
		"redis://a,postgres://b/locks,sqlite:///c":           "the quorum of a:6379 and b:5432 and /c",
	} {
		st, err := o.Open(text)
		if err != nil {
			t.Errorf("Open(%q): %v", text, err)
			continue
		}
		if got := st.String(); got != want {
			t.Errorf("Open(%q) is %q, want %q", text, got, want)
		}
		if err := st.Close(); err != nil {
			t.Errorf("Close of %q: %v", text, err)
		}
	}
}

// A PostgreSQL without TLS is called without it, unless the URL demands it. If that call fails, it is the cause.
func TestAdviceForAServerWithoutTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 1024)
			if n, _ := conn.Read(request); n == 8 { // is there TLS?
				_, _ = conn.Write([]byte{'N'})
			}
			_ = conn.Close()
		}
	}()
	for parameters, want := range map[string]string{
		"": "unexpected EOF", "?sslmode=prefer": "unexpected EOF", "?sslmode=allow": "unexpected EOF", "?sslmode=disable": "unexpected EOF",
		"?sslmode=require": "the server does not speak TLS",
	} {
		n, err := openPostgres("postgres://test@"+listener.Addr().String()+"/locks"+parameters, store.TLS{})
		if err != nil {
			t.Fatal(err)
		}
		err = n.RoundTrip(t.Context(), "")
		if err == nil {
			t.Fatal("there was a response")
		}
		if got := n.Advise(err.Error()).Found; got != want {
			t.Errorf("%q: %q, want %q, of: %v", parameters, got, want, err)
		}
		_ = n.Close()
	}
}

// What to do about a SQLite file that is missing does not lead back to what has just failed.
func TestAdviceForAMissingFile(t *testing.T) {
	folder := t.TempDir()
	n := &sqliteNode{path: filepath.Join(folder, "locks.db")}
	const text = "unable to open database file (14)"
	if a := n.Advise(text); a.Refused || !strings.Contains(a.Remedy, "run holdfast migrate, which makes it") {
		t.Errorf("%+v", a)
	}
	if a := n.Advise(notMade + ": " + text); !a.Refused || !strings.Contains(a.Remedy, "allow this user to write the folder "+folder) {
		t.Errorf("%+v", a)
	}
	n.path = filepath.Join(folder, "none", "locks.db")
	if a := n.Advise(notMade + ": " + text); !strings.Contains(a.Remedy, "make it and run holdfast migrate") {
		t.Errorf("%+v", a)
	}
}
