package sqlite

import "time"

// unsteady is for how much longer documents are kept if all that is known is the time of day, which can be set.
const unsteady = 24 * time.Hour

// hostClock is the clock of Go's timers, which all processes of the host share and nobody can
// set. Where it cannot be read it is the time of day, which says nothing about age.
type hostClock struct {
	boot int64 // identifies the boot of the host, and the clock that this process sees; 0: the time of day
}

func newHostClock() hostClock {
	if _, ok := monotonic(); !ok {
		return hostClock{}
	}
	return hostClock{boot: bootID()}
}

// moment is an instant of the host's clock.
type moment struct {
	boot int64
	us   int64
}

func (h hostClock) now() moment {
	if t, ok := monotonic(); ok && h.boot != 0 {
		return moment{boot: h.boot, us: t.Microseconds()}
	}
	return moment{us: time.Now().UnixMicro()}
}

// after returns the time that a document is kept until.
func (m moment) after(keep time.Duration) int64 {
	if m.boot == 0 {
		keep += unsteady
	}
	return m.us + keep.Microseconds()
}

// since returns the time since an earlier moment of the same boot, or 0.
func (m moment) since(boot, us int64) time.Duration {
	if boot != m.boot || boot == 0 {
		return 0
	}
	return max(0, time.Duration(m.us-us)*time.Microsecond)
}
