package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	storetest.Processes(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, dsn) })
}

func TestHolderIsCutOff(t *testing.T) {
	t.Parallel()
	dsn, addr := newDatabase(t), shared.Get(t).Addr()
	through := func(other string) string { return strings.Replace(dsn, addr, other, 1) }
	storetest.CutOff(t, storetest.New(t, openEngine, dsn), addr, through)
}

func TestCopyOfARunningServer(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartMySQL(t, sqlservers.WithFsync())
	dsn := makeDatabase(t, server)
	storetest.Copy(t, storetest.New(t, openEngine, dsn), func() string {
		return strings.Replace(dsn, server.Addr(), server.StartCopy(t).Addr(), 1)
	})
}

// The file of the table cannot grow for a time.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const limit = 28 << 10 // KiB: the system's files fit
	server := sqlservers.StartMySQL(t, sqlservers.WithFileLimit(limit), sqlservers.WithSetting("innodb_log_file_size", "8M"))
	dsn := makeDatabase(t, server)
	filler := open(t, dsn)
	fill := func() {
		var err error
		for n := 0; err == nil; n++ {
			_, err = filler.Exec(fmt.Sprintf("INSERT INTO holdfast1_document VALUES (X'00%08x', 1, 9e18, REPEAT('x', 2000))", n))
		}
		if full := (*driver.MySQLError)(nil); !errors.As(err, &full) || full.Number != 1114 {
			t.Fatal(err)
		}
	}
	storetest.Full(t, storetest.New(t, openEngine, dsn), fill, func() {
		if _, err := filler.Exec("DELETE FROM holdfast1_document WHERE k < X'01'"); err != nil {
			t.Error(err)
		}
	}, "make room")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	storetest.Faults(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, dsn) })
}

func TestServerHung(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartMySQL(t)
	storetest.Hung(t, storetest.New(t, openEngine, makeDatabase(t, server)), server.Pause, server.Resume)
}
