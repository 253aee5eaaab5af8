package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// DieWithParent returns the attributes of a process that the kernel kills when its parent dies,
// even by a timeout or kill -9.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped waits until the kernel shows the process as stopped: a signal takes time to reach a
// process on another CPU.
func awaitStopped(pid int) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); <-look.C {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// The state follows the program's name, which is in parentheses.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T")) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", pid)
}

// nap sleeps in a thread of its own, which is late by some 60 microseconds.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // after a signal it is early, which a delay may be
}

// freeBytes returns the free space below a folder, 0 if the folder does not exist.
func freeBytes(dir string) uint64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}
