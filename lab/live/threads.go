package live

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// lookAtThreads is the pause between two looks at the threads of a worker.
const lookAtThreads = 20 * time.Millisecond

// threads are those of a process on Linux. The kernel counts how long each was ready to run and waited for a CPU:
// the second number of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst). A goroutine stands still
// with its thread, while others of the process run and see no stall.
type threads struct {
	files  string // a pattern of their schedstat
	waited map[string]time.Duration
}

func ownThreads() *threads { return &threads{files: "/proc/self/task/*/schedstat"} }

// delay returns for how long one of the threads has waited since the last call: the longest. It is 0 where nothing counts it.
// A wait counts when it has ended.
func (t *threads) delay() (longest time.Duration) {
	names, _ := filepath.Glob(t.files)
	before := t.waited
	t.waited = make(map[string]time.Duration, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		fields := bytes.Fields(text)
		if err != nil || len(fields) < 2 {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err != nil {
			continue
		}
		t.waited[name] = time.Duration(ns)
		if was, seen := before[name]; seen {
			longest = max(longest, t.waited[name]-was)
		}
	}
	return longest
}

// watch calls missed with each time in which a thread did not run although it could, until ctx ends. Where in the time since the
// look before it was is not known, so that it is told to have ended now.
func (t *threads) watch(ctx context.Context, now func() time.Duration, missed func(from, to time.Duration)) {
	tick := time.NewTicker(lookAtThreads)
	defer tick.Stop()
	for t.delay(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if d := t.delay(); d >= leastStall {
			at := now()
			missed(at-d, at)
		}
	}
}
