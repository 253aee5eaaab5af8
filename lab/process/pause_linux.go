package process

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Pause stops the process with SIGSTOP, and returns once the kernel shows that
// it has stopped: a signal takes a moment to reach another CPU.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-look.C {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return err
		}
		// The state follows the program's name, which stands in parentheses.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T")) {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", p.cmd.Process.Pid)
}

// dieWithParent makes the kernel kill the process when the lab dies, also if it
// is stopped.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
