package main

import (
	"context"
	"os"
)

// twoSyncs is what a disk needs for two commits.
const twoSyncs = "two fdatasync of 4 KiB"

// fdatasyncFloor overwrites a block of a file and waits for the disk.
func fdatasyncFloor() contender {
	return contender{name: twoSyncs, role: floor, background: true, open: func(settings) (client, error) {
		const block, blocks = 4096, 256
		f, err := os.CreateTemp("", "holdfast-bench-fdatasync-")
		if err == nil {
			_, err = f.Write(make([]byte, block*blocks))
		}
		if err != nil {
			return nil, err
		}
		next := 0
		write := func(context.Context) error {
			if _, err := f.WriteAt(make([]byte, block), int64(next*block)); err != nil {
				return err
			}
			next = (next + 1) % blocks
			return fdatasync(f)
		}
		return twice(write, func() {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}), nil
	}}
}
