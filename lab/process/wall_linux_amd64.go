package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// canStep is true: the wall clock of a process can be stepped.
const canStep = true

// wall is the wall clock of this process alone. Programs read the clock by a
// function that the kernel maps into them, the vDSO. That function is replaced, in
// this process's own copy of the page, by one that calls the kernel and adds what
// is found in a page beside it. The monotonic clock goes on as it was, as it does
// when a machine's clock is set.
type wall struct{ page []byte }

const (
	vdsoTag    = 33   // AT_SYSINFO_EHDR
	vdsoSize   = 8192 // two pages on all kernels of today
	wallOffset = 2048 // in the page: seconds to add
)

// openWall puts the new function in place. Call it before the clock matters.
func openWall() (*wall, error) {
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	entry, err := clockFunction(mem)
	if err != nil {
		return nil, err
	}
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, err
	}
	at := uint64(uintptr(unsafe.Pointer(&page[0])))
	copy(page, program(at+wallOffset))
	jump := append([]byte{0x48, 0xb8}, binary.LittleEndian.AppendUint64(nil, at)...) // mov rax, at
	jump = append(jump, 0xff, 0xe0)                                                  // jmp rax
	if _, err := mem.WriteAt(jump, int64(entry)); err != nil {
		return nil, err
	}
	w := &wall{page}
	return w, w.proof()
}

// program is clock_gettime by the kernel, with seconds added to the wall clock.
func program(offset uint64) []byte {
	var b bytes.Buffer
	b.Write([]byte{
		0xb8, 228, 0, 0, 0, // mov eax, clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 16, // jne to the end
		0x48, 0xb9, // mov rcx, offset
	})
	b.Write(binary.LittleEndian.AppendUint64(nil, offset))
	b.Write([]byte{
		0x48, 0x8b, 0x09, // mov rcx, [rcx]
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	})
	return b.Bytes()
}

// clockFunction finds where the kernel has put its function.
func clockFunction(mem io.ReaderAt) (uint64, error) {
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return 0, err
	}
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.LittleEndian.Uint64(auxv) != vdsoTag {
			continue
		}
		base := binary.LittleEndian.Uint64(auxv[8:])
		image, err := elf.NewFile(io.NewSectionReader(mem, int64(base), vdsoSize))
		if err != nil {
			return 0, err
		}
		symbols, err := image.DynamicSymbols()
		if err != nil {
			return 0, err
		}
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" {
				return base + s.Value, nil
			}
		}
	}
	return 0, errors.New("this kernel maps no clock into its processes")
}

// set makes the wall clock differ from the machine's by d, in whole seconds.
func (w *wall) set(d time.Duration) error {
	if d%time.Second != 0 {
		return fmt.Errorf("a clock steps by whole seconds, not by %v", d)
	}
	binary.LittleEndian.PutUint64(w.page[wallOffset:], uint64(int64(d/time.Second)))
	return nil
}

// proof tries whether a step is seen, so that no play goes on with a clock that
// does not step.
func (w *wall) proof() error {
	before := time.Now().Round(0)
	if err := w.set(time.Hour); err != nil {
		return err
	}
	seen := time.Now().Round(0).Sub(before)
	if err := w.set(0); err != nil {
		return err
	}
	if seen < time.Hour {
		return fmt.Errorf("the clock does not step: an hour was %v", seen)
	}
	return nil
}
