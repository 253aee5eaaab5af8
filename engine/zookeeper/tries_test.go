package zookeeper

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func TestTriesFindAKilledHolder(t *testing.T) {
	t.Parallel()
	storetest.FindsAKilledHolder(t, storetest.New(t, openEngine, sharedServer(t).Addr()))
}

func TestTriesPassOverNoHolder(t *testing.T) {
	t.Parallel()
	storetest.PassesOverNoHolder(t, storetest.New(t, openEngine, sharedServer(t).Addr()))
}

func BenchmarkTry(b *testing.B) {
	conn := connect(b, 10*time.Second, sharedServer(b).Addr())
	storetest.BenchmarkTry(b, func() engine.Engine { return New(conn) })
}
