package live

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// The delay of a process is that of the thread that waited longest; threads come and go.
func TestThreadDelay(t *testing.T) {
	dir := t.TempDir()
	stat := func(thread, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, thread), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, thread, "schedstat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := threads{files: filepath.Join(dir, "*", "schedstat")}
	look := func(want time.Duration) {
		t.Helper()
		if got := of.delay(); got != want {
			t.Errorf("a delay of %v, want %v", got, want)
		}
	}
	stat("1", "5 900000000 3\n")
	stat("2", "5 100000000 3\n")
	look(0) // nothing to compare with
	stat("1", "5 907000000 4\n")
	stat("2", "5 130000000 5\n")
	look(30 * ms)
	stat("3", "0 50000000 1\n") // it is new: since when is not known
	look(0)
	if err := os.RemoveAll(filepath.Join(dir, "2")); err != nil {
		t.Fatal(err)
	}
	stat("3", "0 58000000 1\n")
	stat("1", "")
	look(8 * ms)
}

// The kernel counts the waits of this process' threads, where the lab has them.
func TestOwnThreads(t *testing.T) {
	of := ownThreads()
	of.delay()
	if runtime.GOOS == "linux" && len(of.waited) < 2 {
		t.Errorf("schedstat of %d threads", len(of.waited))
	}
}
