package doctorstores

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	sqliteengine "github.com/holdfast-go/holdfast/engine/sqlite"
)

func TestFilesystems(t *testing.T) {
	for number, want := range map[uint32]filesystemKind{
		unix.EXT4_SUPER_MAGIC: local, unix.NFS_SUPER_MAGIC: networked, unix.SMB2_SUPER_MAGIC: networked, 0xff534d42: networked, 0x794c7630: layered, unix.FUSE_SUPER_MAGIC: unclear, 7: unclear,
	} {
		if name, got := filesystemNamed(number); got != want {
			t.Errorf("%s is of kind %d, want %d", name, got, want)
		}
	}
	if _, kind := filesystemOf("/no such folder"); kind != unclear {
		t.Error("a folder that is missing has a file system")
	}
}

func TestSQLiteInMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "holdfast-doctor-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "locks.db")
	must(t, sqliteengine.Migrate(t.Context(), sqliteOpen(t, path, "")))
	examineSQLite(t, path, "").require(t, "filesystem", diagnosis.Warn, "tmpfs is in memory: a restart of the machine forgets the marks")
}
