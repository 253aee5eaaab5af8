package redistest

import (
	"runtime"
	"syscall"
	"testing"
)

// A single server is started by the caller's own thread, whose CPUs it inherits.
func TestStartAllByTheCaller(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	threads := make([]int, 3)
	for _, n := range []int{1, len(threads)} {
		if err := StartAll(n, func(i int) error { threads[i] = syscall.Gettid(); return nil }); err != nil {
			t.Fatal(err)
		}
		if threads[n-1] != syscall.Gettid() {
			t.Errorf("the last of %d was started by another thread", n)
		}
	}
}
