//go:build !linux

package redistest

import (
	"syscall"
	"time"
)

// DieWithParent does nothing here: if a test process is killed, the processes that it started run
// on.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// awaitStopped does nothing here.
func awaitStopped(int) error { return nil }

func nap(d time.Duration) { <-time.After(d) }

// freeBytes returns 0: only Linux has the folder.
func freeBytes(string) uint64 { return 0 }
