package redistest

import "os"

// DataDir makes a folder for the files of a server, as os.MkdirTemp names it; the caller
// removes it. It is in memory if there is room: a disk that stalls for a second would stall a
// server that appends to a file, and its leases.
func DataDir(pattern string) (string, error) {
	const room = 1 << 30
	parent := ""
	if freeBytes(memoryDir) >= room {
		parent = memoryDir
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil && parent != "" {
		return os.MkdirTemp("", pattern)
	}
	return dir, err
}

// memoryDir is a folder in memory, on Linux.
const memoryDir = "/dev/shm"
