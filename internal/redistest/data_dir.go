package redistest

import "os"

// DataDir creates a folder for the files of a server with os.MkdirTemp; the caller removes the
// folder. It is in memory if there is room for 1 GiB, since a disk that stalls for a second would
// also stall a server that appends to a file.
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

// memoryDir is the folder in memory on Linux.
const memoryDir = "/dev/shm"
