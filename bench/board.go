package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// board is memory shared by all worker processes. It counts overlapping holders and
// records times across processes.
type board struct {
	inside   atomic.Int64
	_        [56]byte
	last     atomic.Int64 // last caller inside
	overlaps atomic.Int64
	waiting  atomic.Int64 // callers in Lock
	released atomic.Int64 // when the last holder began to unlock; 0 if no caller waited
	done     atomic.Int64 // callers of a convoy that have unlocked
	finished atomic.Int64 // when the last of them had unlocked
}

// enter is called right after the lock is granted. It returns the time since the last
// holder began to release it, or 0, and whether that holder was another caller.
func (b *board) enter(caller int64) (gap int64, handOff bool) {
	if b.inside.Add(1) != 1 {
		b.overlaps.Add(1)
	}
	if at := b.released.Swap(0); at != 0 {
		gap = monotonic() - at
	}
	return gap, b.last.Swap(caller) != caller
}

// leave is called right before the release.
func (b *board) leave() {
	if b.waiting.Load() > 0 {
		b.released.Store(monotonic())
	}
	b.inside.Add(-1)
}

func (b *board) reset() {
	b.inside.Store(0)
	b.last.Store(-1)
	b.overlaps.Store(0)
	b.waiting.Store(0)
	b.released.Store(0)
	b.done.Store(0)
	b.finished.Store(0)
}

// monotonic returns the monotonic clock of the machine, the same in all processes, in
// nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("bench: the monotonic clock: %v", err)) // supported on every system with Redis
	}
	return ts.Nano()
}

// newBoard creates the file for the workers to map, in its own folder.
func newBoard() (b *board, path string, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, "", err
	}
	path = filepath.Join(dir, "board")
	if err := os.WriteFile(path, make([]byte, os.Getpagesize()), 0o600); err != nil {
		return nil, "", err
	}
	b, err = mapBoard(path)
	return b, path, err
}

// mapBoard maps the file until the process ends.
func mapBoard(path string) (*board, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return (*board)(unsafe.Pointer(&m[0])), nil
}
