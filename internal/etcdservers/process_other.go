//go:build unix && !linux

package etcdservers

import "syscall"

// dieWithParent has no equivalent here: the servers of a test process that is killed keep running.
func dieWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped does nothing here.
func awaitStopped(int) error { return nil }
