package etcd_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	storetest.Processes(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, all[0].Addr()) })
}

func TestCopyOfARunningServer(t *testing.T) {
	t.Parallel()
	server := etcdservers.Start(t, etcdservers.Config{Fsync: true})
	storetest.Copy(t, storetest.New(t, openEngine, server.Addr()), func() string { return server.StartCopy(t).Addr() })
}

func TestFaults(t *testing.T) {
	t.Parallel()
	all, err := shared()
	must(t, err)
	storetest.Faults(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, all[0].Addr()) })
}

func TestServerHung(t *testing.T) {
	t.Parallel()
	server := etcdservers.Start(t, etcdservers.Config{})
	storetest.Hung(t, storetest.New(t, openEngine, server.Addr()), server.Pause, server.Resume)
}
