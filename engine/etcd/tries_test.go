package etcd_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/trytest"
)

// openProcess is for the processes of trytest.
func openProcess(addrs []string) (engine.Engine, func(), error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	return etcd.New(c), func() { _ = c.Close() }, nil
}

func addrs(t testing.TB) []string {
	t.Helper()
	all, err := shared()
	must(t, err)
	return all.Addrs()
}

func TestTriesFindAKilledHolder(t *testing.T) {
	t.Parallel()
	trytest.FindsAKilledHolder(t, addrs(t))
}

func TestTriesPassOverNoHolder(t *testing.T) {
	t.Parallel()
	trytest.PassesOverNoHolder(t, addrs(t))
}

func BenchmarkTry(b *testing.B) {
	c := single(b)
	trytest.BenchmarkTry(b, func() engine.Engine { return etcd.New(c) })
}
