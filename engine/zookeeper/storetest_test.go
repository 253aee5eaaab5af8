package zookeeper

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/storetest"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	storetest.Processes(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, addr) })
}

func TestHolderIsCutOff(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	storetest.CutOff(t, storetest.New(t, openEngine, addr), addr, func(other string) string { return other })
}

func TestCopyOfARunningServer(t *testing.T) {
	t.Parallel()
	server := zkservers.Start(t)
	storetest.Copy(t, storetest.New(t, openEngine, server.Addr()), func() string { return server.StartCopy(t).Addr() })
}
