package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf returns the CPU time of a process and of its children, also of those that have ended.
func cpuOf(pid int) (time.Duration, error) {
	sum, ended, err := cpuOfOne(pid)
	if err != nil {
		return 0, fmt.Errorf("the CPU time of process %d: %w", pid, err)
	}
	sum += ended
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // of a thread that has ended
		}
		for _, word := range bytes.Fields(text) {
			child, err := strconv.Atoi(string(word))
			if err != nil {
				return 0, err
			}
			if used, _, err := cpuOfOne(child); err == nil { // otherwise it has ended
				sum += used
			}
		}
	}
	return sum, nil
}

// cpuOfOne returns the CPU time of one process, and that of its children that have ended.
func cpuOfOne(pid int) (own, ended time.Duration, err error) {
	var ts unix.Timespec
	clock := int32(^pid<<3 | 2) // the process's CPU clock; see clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	const cutime, tick = 13, 10 * time.Millisecond // fields behind the name; USER_HZ
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < cutime+2 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	for _, f := range fields[cutime : cutime+2] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ended += time.Duration(n) * tick
	}
	return time.Duration(ts.Nano()), ended, nil
}

// fdatasync waits until the disk has what was written to a file.
func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
