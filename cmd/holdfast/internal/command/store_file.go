package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// storeFileVar is set for a program that takes the place of this one, or does its work. It has the number of an
// inherited file with what was in the file of --store-file, which may be a pipe and is read once.
const storeFileVar = "HOLDFAST_STORE_FD"

// maxStoreFile is the longest content in bytes: what fits into any pipe.
const maxStoreFile = 4096

// readURL reads the file of --store-file: a URL, unless one is on the command line,
// or a password. given: the file is on the command line.
func (e *env) readURL(file string, given bool) error {
	if file == "" {
		return nil
	}
	data, err := readStoreFile(file)
	if err != nil {
		return fail(exitConfig, "read the store's URL: %v; check --store-file or HOLDFAST_STORE_FILE", err)
	}
	e.storeFile = data
	switch content := strings.TrimSpace(string(data)); {
	case content == "":
		return fail(exitConfig, "%s is empty: write the URL of the store, or its password", file)
	case !strings.Contains(content, "://"):
		e.url = store.WithPassword(e.url, content)
	case !e.urlGiven:
		e.url, e.urlGiven = content, given
	}
	return nil
}

// readStoreFile reads a file, or what another program has read of it.
func readStoreFile(name string) ([]byte, error) {
	f, err := openStoreFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStoreFile+1))
	if err == nil && len(data) > maxStoreFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxStoreFile)
	}
	return data, err
}

func openStoreFile(name string) (*os.File, error) {
	inherited := os.Getenv(storeFileVar)
	if inherited == "" {
		return os.Open(name)
	}
	os.Unsetenv(storeFileVar)
	fd, err := strconv.Atoi(inherited)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", storeFileVar, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// pipeWith returns a pipe with up to maxStoreFile bytes, which started programs inherit.
func pipeWith(content []byte) (fd int, err error) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		return -1, fmt.Errorf("pipe: %w", err)
	}
	_, err = syscall.Write(ends[1], content)
	if err = errors.Join(err, syscall.Close(ends[1])); err != nil {
		return -1, fmt.Errorf("pipe: %w", errors.Join(err, syscall.Close(ends[0])))
	}
	return ends[0], nil
}

// setStoreFile hands on what was in the file of --store-file to the next program that this one starts.
func (e *env) setStoreFile() error {
	if e.storeFile == nil {
		return nil
	}
	fd, err := pipeWith(e.storeFile)
	if err != nil {
		return err
	}
	return os.Setenv(storeFileVar, strconv.Itoa(fd))
}
