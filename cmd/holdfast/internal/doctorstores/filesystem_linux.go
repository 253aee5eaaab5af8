package doctorstores

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// filesystemOf returns the name and the kind of a folder's file system.
func filesystemOf(folder string) (string, filesystemKind) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return err.Error(), unclear
	}
	return filesystemNamed(uint32(s.Type))
}

// filesystemNamed returns the name and the kind of a file system by its number.
func filesystemNamed(number uint32) (string, filesystemKind) {
	const overlay, zfs, ntfs, lustre, gfs2, beegfs = 0x794c7630, 0x2fc12fc1, 0x7366746e, 0x0bd00bd0, 0x01161970, 0x19830326
	known := map[uint32]struct {
		name string
		kind filesystemKind
	}{
		unix.EXT4_SUPER_MAGIC: {"ext4", local}, unix.XFS_SUPER_MAGIC: {"xfs", local}, unix.BTRFS_SUPER_MAGIC: {"btrfs", local}, zfs: {"zfs", local},
		unix.F2FS_SUPER_MAGIC: {"f2fs", local}, ntfs: {"ntfs", local}, unix.MSDOS_SUPER_MAGIC: {"vfat", local},
		unix.NFS_SUPER_MAGIC: {"nfs", networked}, unix.SMB_SUPER_MAGIC: {"smb", networked}, unix.SMB2_SUPER_MAGIC: {"smb2", networked}, unix.CIFS_SUPER_MAGIC: {"cifs", networked},
		unix.CEPH_SUPER_MAGIC: {"ceph", networked}, unix.AFS_SUPER_MAGIC: {"afs", networked}, unix.V9FS_MAGIC: {"9p", networked}, unix.OCFS2_SUPER_MAGIC: {"ocfs2", networked},
		lustre: {"lustre", networked}, gfs2: {"gfs2", networked}, beegfs: {"beegfs", networked},
		unix.TMPFS_MAGIC: {"tmpfs", volatile}, unix.RAMFS_MAGIC: {"ramfs", volatile}, overlay: {"overlay", layered},
		unix.FUSE_SUPER_MAGIC: {"fuse", unclear},
	}
	if f, ok := known[number]; ok {
		return f.name, f.kind
	}
	return fmt.Sprintf("of the type 0x%x", number), unclear
}
