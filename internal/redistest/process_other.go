//go:build !linux

package redistest

import "syscall"

// dieWithParent has no equivalent here: a test process that is killed leaves
// its servers running.
func dieWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped trusts that the signal arrives soon.
func awaitStopped(int) error { return nil }

// freeBytes is for a folder that only Linux has.
func freeBytes(string) uint64 { return 0 }
