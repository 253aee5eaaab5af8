//go:build !linux

package sqltest

import "syscall"

// dieWithParent has no equivalent here: killed tests leave their servers running.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
