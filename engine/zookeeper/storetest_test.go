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

// A server whose folder cannot be written ends with its next snapshot, and so does what it has not acknowledged. When the
// folder is back, and the server, all go on.
func TestServerThatCannotWrite(t *testing.T) {
	t.Parallel()
	server := zkservers.Start(t, "snapCount=100")
	storetest.Full(t, storetest.New(t, openEngine, server.Addr()), func() { server.MoveData(t) }, server.Restart, "zk: ")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	storetest.Faults(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, addr) })
}

func TestServerHung(t *testing.T) {
	t.Parallel()
	server := zkservers.Start(t)
	storetest.Hung(t, storetest.New(t, openEngine, server.Addr()), server.Pause, server.Resume)
}
