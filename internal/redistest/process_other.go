//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing here: what a test process that is killed has started keeps running.
func dieWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped does nothing here.
func awaitStopped(int) error { return nil }

// freeBytes returns 0: only Linux has the folder.
func freeBytes(string) uint64 { return 0 }
