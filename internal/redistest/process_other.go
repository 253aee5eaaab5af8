//go:build !linux

package redistest

import "syscall"

// DieWithParent does nothing here: what a test process that is killed has started keeps running.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// awaitStopped does nothing here.
func awaitStopped(int) error { return nil }

// freeBytes returns 0: only Linux has the folder.
func freeBytes(string) uint64 { return 0 }
