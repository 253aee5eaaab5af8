package etcd_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// onShared returns the shared etcd for processes.
func onShared(t testing.TB) *storetest.Store {
	t.Helper()
	all, err := shared()
	must(t, err)
	return storetest.New(t, openEngine, all[0].Addr())
}

func TestTriesFindAKilledHolder(t *testing.T) {
	t.Parallel()
	storetest.FindsAKilledHolder(t, onShared(t))
}

func TestTriesPassOverNoHolder(t *testing.T) {
	t.Parallel()
	storetest.PassesOverNoHolder(t, onShared(t))
}

func BenchmarkTry(b *testing.B) {
	c := single(b)
	storetest.BenchmarkTry(b, func() engine.Engine { return etcd.New(c) })
}
