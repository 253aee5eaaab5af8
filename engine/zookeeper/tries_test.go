package zookeeper

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/trytest"
)

// openProcess is for the processes of trytest.
func openProcess(addrs []string) (engine.Engine, func(), error) {
	conn, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(&logger{}))
	if err != nil {
		return nil, nil, err
	}
	return New(conn), conn.Close, nil
}

func TestTriesFindAKilledHolder(t *testing.T) {
	t.Parallel()
	trytest.FindsAKilledHolder(t, []string{sharedServer(t).Addr()})
}

func TestTriesPassOverNoHolder(t *testing.T) {
	t.Parallel()
	trytest.PassesOverNoHolder(t, []string{sharedServer(t).Addr()})
}

func BenchmarkTry(b *testing.B) {
	conn := connect(b, 10*time.Second, sharedServer(b).Addr())
	trytest.BenchmarkTry(b, func() engine.Engine { return New(conn) })
}
