package sqltest

import "syscall"

// dieWithParent makes the kernel kill the server when the tests die.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
