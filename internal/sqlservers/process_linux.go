package sqlservers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// childrenOf returns the children of a process.
func childrenOf(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var children []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent, ok := stat(child); ok && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// awaitState waits until a process is in a state: T stopped, Z ended. One that has gone is in any.
func awaitState(pid int, want byte) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); <-look.C {
		if state, _, ok := stat(pid); !ok || state == want || state == 'Z' {
			return nil
		}
	}
	return fmt.Errorf("process %d is not in state %c", pid, want)
}

// stat returns the state and the parent of a process, which follow its name in parentheses.
func stat(pid int) (state byte, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}
