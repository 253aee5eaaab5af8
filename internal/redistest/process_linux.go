package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// dieWithParent makes the kernel kill the server when the test process dies, a
// timeout or a kill -9 included.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped returns once the kernel shows the process as stopped: a signal
// takes a moment to reach a process that runs on another CPU.
func awaitStopped(pid int) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); <-look.C {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// The state follows the program's name, which stands in parentheses.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T")) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", pid)
}

// freeBytes returns how much may be written below a folder, 0 if it is not there.
func freeBytes(dir string) uint64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}
