package live

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a folder with what the kernel counts of some threads.
type counted struct {
	t   *testing.T
	dir string
}

func (c counted) set(thread, text string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Join(c.dir, thread), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, thread, "schedstat"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// The wait of a process is that of the thread that waited longest in one go, as far as its mean shows; threads come and go.
func TestThreadWaits(t *testing.T) {
	c := counted{t, t.TempDir()}
	of := threads{dir: c.dir}
	look := func(want time.Duration) {
		t.Helper()
		if got := of.longest(); got != want {
			t.Errorf("a wait of %v, want %v", got, want)
		}
	}
	c.set("1", "5 900000000 3\n")
	c.set("2", "5 100000000 3\n")
	look(0) // nothing to compare with
	c.set("1", "5 907000000 4\n")
	c.set("2", "5 130000000 8\n") // 30 ms in five waits
	look(7 * ms)
	c.set("3", "0 50000000 1\n") // it is new: since when is not known
	look(0)
	if err := os.RemoveAll(filepath.Join(c.dir, "2")); err != nil {
		t.Fatal(err)
	}
	c.set("3", "0 58000000 2\n")
	c.set("1", "")
	look(8 * ms)
}

// Waits of leastStall and more are reported when they have ended, until the ctx ends.
func TestThreadWaitsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counted{t, t.TempDir()}
		of, start := threads{dir: c.dir}, time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var got []time.Duration
		ended := make(chan struct{})
		c.set("1", "0 0 1\n")
		go func() {
			defer close(ended)
			of.watch(ctx, func() time.Duration { return time.Since(start) }, func(from, to time.Duration) { got = append(got, from, to) })
		}()
		synctest.Wait()
		c.set("1", "0 4000000 2\n") // 4 ms are too short
		time.Sleep(lookAtThreads)
		synctest.Wait()
		c.set("1", "0 34000000 3\n")
		time.Sleep(lookAtThreads)
		synctest.Wait()
		cancel()
		<-ended
		if len(got) != 2 || got[0] != 2*lookAtThreads-30*ms || got[1] != 2*lookAtThreads {
			t.Errorf("reported %v", got)
		}
	})
}

// The kernel counts the waits of this process' threads, where it has the file.
func TestOwnThreads(t *testing.T) {
	_, missing := os.Stat("/proc/self/schedstat")
	of := ownThreads()
	of.longest()
	if missing == nil && len(of.seen) == 0 {
		t.Error("no threads")
	}
}
