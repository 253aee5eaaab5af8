package zookeeper

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/storetest"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// shared is the server of the tests that do not harm it.
var shared struct {
	once   sync.Once
	server *zkservers.Server
	err    error
}

func TestMain(m *testing.M) {
	storetest.Main(openEngine)
	leaktest.Main(m, func() {
		if shared.server != nil {
			shared.server.Stop()
		}
	})
}

// openEngine is for the processes of storetest.
func openEngine(addr string) (engine.Engine, func(), error) {
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(&logger{}))
	if err != nil {
		return nil, nil, err
	}
	return New(conn), conn.Close, nil
}

func sharedServer(t testing.TB) *zkservers.Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = zkservers.Launch() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// logger is the log of a test, which ends with it.
type logger struct {
	mu sync.Mutex
	t  testing.TB
}

func (l *logger) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t != nil {
		l.t.Logf(format, args...)
	}
}

// connect opens a connection for the length of a test.
func connect(t testing.TB, session time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	l := &logger{t: t}
	conn, _, err := zk.Connect(addrs, session, zk.WithLogger(l), zk.WithLogInfo(false), zk.WithDialer(Dialer(session)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.t = nil
	})
	return conn
}
