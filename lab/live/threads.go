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

// threads are those of a process on Linux. The kernel counts for how long each was ready to run and waited for a CPU, and how often it
// ran: the second and third number of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst). A goroutine
// stands still with its thread, while others of the process run and see no stall.
type threads struct {
	dir  string // of the threads
	seen map[string]waits
}

// waits are those of a thread for a CPU.
type waits struct {
	sum time.Duration
	n   int64
}

func ownThreads() *threads { return &threads{dir: "/proc/self/task"} }

// longest returns a time for which one of the threads has waited for a CPU at least, in one go, since the last call: the mean of the
// thread's waits that have ended since. It is 0 where nothing counts them.
func (t *threads) longest() (longest time.Duration) {
	all, _ := os.ReadDir(t.dir)
	before := t.seen
	t.seen = make(map[string]waits, len(all))
	for _, thread := range all {
		text, err := os.ReadFile(filepath.Join(t.dir, thread.Name(), "schedstat"))
		fields := bytes.Fields(text)
		if err != nil || len(fields) < 3 {
			continue // the thread has ended
		}
		ns, err1 := strconv.ParseInt(string(fields[1]), 10, 64)
		n, err2 := strconv.ParseInt(string(fields[2]), 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		now := waits{time.Duration(ns), n}
		t.seen[thread.Name()] = now
		if was, known := before[thread.Name()]; known && now.n > was.n {
			longest = max(longest, (now.sum-was.sum)/time.Duration(now.n-was.n))
		}
	}
	return longest
}

// watch calls missed with each wait of a thread of leastStall or more, until ctx ends. When it was since the look before is
// not known, so it is reported as if it had just ended.
func (t *threads) watch(ctx context.Context, now func() time.Duration, missed func(from, to time.Duration)) {
	tick := time.NewTicker(lookAtThreads)
	defer tick.Stop()
	for t.longest(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if wait := t.longest(); wait >= leastStall {
			at := now()
			missed(at-wait, at)
		}
	}
}
