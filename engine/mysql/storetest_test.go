package mysql_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	storetest.Processes(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, dsn) })
}

func TestCopyOfARunningServer(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartMySQL(t, sqlservers.WithFsync())
	dsn := makeDatabase(t, server)
	storetest.Copy(t, storetest.New(t, openEngine, dsn), func() string {
		return strings.Replace(dsn, server.Addr(), server.StartCopy(t).Addr(), 1)
	})
}
