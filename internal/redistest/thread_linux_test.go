package redistest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A single server is started by the caller's own thread, whose CPUs it inherits.
func TestStartAllByTheCaller(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	threads := make([]int, 3)
	for _, n := range []int{1, len(threads)} {
		if err := StartAll(n, func(i int) error { threads[i] = unix.Gettid(); return nil }); err != nil {
			t.Fatal(err)
		}
		if threads[n-1] != unix.Gettid() {
			t.Errorf("the last of %d was started by another thread", n)
		}
	}
}
