//go:build unix && !linux

package sqlservers

import (
	"bytes"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// childrenOf returns the children of a process.
func childrenOf(pid int) []int {
	table, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var children []int
	for line := range bytes.Lines(table) {
		var child, parent int
		if n, _ := fmt.Sscan(string(line), &child, &parent); n == 2 && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// awaitState waits for the end of a process, and nothing else.
func awaitState(pid int, want byte) error {
	if want != 'Z' {
		return nil
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); <-look.C {
		if syscall.Kill(pid, 0) != nil {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}
