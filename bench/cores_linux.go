package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// pinned is set in the environment if the program is already pinned. Its value is the
// list of all CPUs that were available before.
const pinned = "HOLDFAST_BENCH_PINNED"

func cpuSet(cpus []int) *unix.CPUSet {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return &set
}

// pinSelf pins the program to the clients' CPUs and executes it again in the same
// process, because the Go runtime counts CPUs only at its start. It returns in the
// second start, or if there is nothing to pin.
func pinSelf() (cores, error) {
	if before := os.Getenv(pinned); before != "" {
		return splitCores(parseList(before)), nil
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return cores{}, fmt.Errorf("get the CPUs: %w", err)
	}
	var cpus []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	c := splitCores(cpus)
	if len(c.clients) == 0 {
		return c, nil
	}
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	runtime.LockOSThread() // the program inherits the CPUs of the thread that executes it
	if err := unix.SchedSetaffinity(0, cpuSet(c.clients)); err != nil {
		return c, fmt.Errorf("pin to CPUs %v: %w", c.clients, err)
	}
	return c, syscall.Exec(self, os.Args, append(os.Environ(), pinned+"="+list(cpus)))
}

// spread lets the calling goroutine, and what it starts, use all CPUs until back is called.
func (c cores) spread() (back func(), err error) {
	return c.use(append(c.clients[:len(c.clients):len(c.clients)], c.server...))
}

// use lets the calling goroutine use some CPUs until back is called.
func (c cores) use(cpus []int) (back func(), err error) {
	if len(c.server) == 0 {
		return func() {}, nil
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, cpuSet(cpus)); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("use CPUs %s: %w", list(cpus), err)
	}
	return func() {
		if unix.SchedSetaffinity(0, cpuSet(c.clients)) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with its goroutine
		}
	}, nil
}

// asServer lets the calling goroutine, and what it starts, use the server's CPU alone until back is
// called.
func (c cores) asServer() (back func(), err error) { return c.use(c.server) }

// checkServer returns an error if a server may use other CPUs than the server's: it was not started as asServer says.
func (c cores) checkServer(pid int) error {
	var set unix.CPUSet
	if len(c.server) == 0 {
		return nil
	}
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return fmt.Errorf("get the CPUs of process %d: %w", pid, err)
	}
	if set != *cpuSet(c.server) {
		return fmt.Errorf("the server, process %d, is not on CPU %s alone", pid, list(c.server))
	}
	return nil
}

// pinServer pins all threads of a server.
func (c cores) pinServer(pid int) error {
	if len(c.server) == 0 {
		return nil
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(filepath.Base(t))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, cpuSet(c.server)); err != nil {
			return fmt.Errorf("pin the server to CPUs %v: %w", c.server, err)
		}
	}
	return nil
}
