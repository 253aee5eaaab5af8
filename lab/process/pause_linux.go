package process

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// PausePID stops a process with SIGSTOP, and returns once the kernel shows that it
// has stopped: a signal takes a moment to reach another CPU.
func PausePID(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-look.C {
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

// DieWithParent makes the kernel kill a process when the lab dies, also if it is
// stopped.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
