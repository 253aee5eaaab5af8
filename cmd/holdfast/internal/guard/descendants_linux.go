package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// descendants are the descendants of this process in its session. They include orphans,
// which this process adopts, but not processes that have left the session (setsid).
type descendants struct{}

func (descendants) signal(sig syscall.Signal) error {
	pids, err := listDescendants()
	for _, pid := range pids {
		if e := syscall.Kill(pid, sig); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("process %d: %w", pid, e))
		}
	}
	return err
}

// empty lists twice: a process may have been started while the first list was read, by a
// parent that ended then. In the second list it is a child of this process.
func (descendants) empty() bool {
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); errors.Is(err, unix.ECHILD) {
		return true // there are no children, not even outside the session
	}
	for range 2 {
		if pids, err := listDescendants(); err != nil || len(pids) > 0 {
			return false
		}
	}
	return true
}

func (descendants) reap() { reapChildren(-1) }

// listDescendants returns the process IDs of the descendants, parents before children.
func listDescendants() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := proc.Readdirnames(-1)
	proc.Close()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	session, err := unix.Getsid(self)
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, sid, ok := parentOf(name); ok && sid == session {
			children[parent] = append(children[parent], pid)
		}
	}
	list := children[self]
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list, nil
}

// parentOf reads the parent and the session of a process from /proc/PID/stat.
func parentOf(pid string) (parent, session int, ok bool) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0, false // it has ended
	}
	// The name, in parentheses, may contain any characters. After it: state, parent, group, session.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 4 {
		return 0, 0, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	return parent, session, err1 == nil && err2 == nil
}
