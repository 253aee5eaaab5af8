//go:build unix

package sqlservers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// account is as whom a server runs. No server runs as root.
type account struct {
	set      bool
	uid, gid uint32
}

// accountOf returns the first of the users that exists if the tests run as root, and
// otherwise none: the server runs as the tests do.
func accountOf(names ...string) (account, error) {
	if os.Getuid() != 0 {
		return account{}, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, err
		}
		return account{set: true, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return account{}, fmt.Errorf("the tests run as root, and there is none of the users %q to run the server as", names)
}

// program finds a program in PATH, or where packages put what only they call;
// the newest of several versions.
func program(name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, name))
		if err == nil && len(found) > 0 {
			slices.SortFunc(found, func(a, b string) int { return major(b) - major(a) })
			return found[0], nil
		}
	}
	return "", fmt.Errorf("there is no program %s", name)
}

// major finds the version in a path like /usr/lib/postgresql/15/bin/initdb.
func major(path string) int {
	for part := range strings.SplitSeq(path, string(filepath.Separator)) {
		if n, err := strconv.Atoi(part); err == nil {
			return n
		}
	}
	return 0
}
