package sqlite

import (
	"hash/fnv"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time since the host was booted, without suspensions.
func monotonic() (t time.Duration, ok bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}

// bootID identifies the boot of the host and the time namespace, which may have set its
// monotonic clock. It is 0 if it is not known.
func bootID() int64 {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	namespace, err := os.Readlink("/proc/self/ns/time")
	if err != nil && !os.IsNotExist(err) { // kernels before 5.6 have none
		return 0
	}
	h := fnv.New64a()
	h.Write(boot)
	h.Write([]byte(namespace))
	return int64(h.Sum64())
}
