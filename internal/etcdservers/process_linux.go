package etcdservers

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// dieWithParent makes the kernel kill the server when the test process dies.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// awaitStopped waits until the kernel shows the process as stopped.
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
