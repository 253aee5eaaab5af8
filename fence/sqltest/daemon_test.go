package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// startTimeout bounds what takes a second or two on a quiet machine.
const startTimeout = 60 * time.Second

// daemon is a database server of the tests' own: on a free loopback port, with
// its data in a folder of its own, and gone when the tests end.
type daemon struct {
	dir    string
	port   int
	cmd    *exec.Cmd
	log    *transcript
	exited chan struct{} // closed when the process is gone and waited for
}

// newDaemon makes the folder and finds a port.
func newDaemon(u account) (*daemon, error) {
	dir, err := redistest.DataDir("fence-")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, log: &transcript{}, exited: make(chan struct{})}
	if u.set {
		if err := os.Chown(dir, int(u.uid), int(u.gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	d.port = l.Addr().(*net.TCPAddr).Port
	return d, l.Close()
}

// prepare runs a program that makes the server's first files.
func (d *daemon) prepare(u account, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	d.dress(cmd, u)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; it said:\n%s", path, err, d.log)
	}
	return nil
}

// serve starts the server and waits until it answers on dsn.
func (d *daemon) serve(u account, driver, dsn, path string, args ...string) error {
	d.cmd = exec.Command(path, args...)
	d.dress(d.cmd, u)
	if err := d.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(d.exited)
		_ = d.cmd.Wait() // how it died is told by its log
	}()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-d.exited:
			return fmt.Errorf("%s ended; it said:\n%s", path, d.log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; it said:\n%s", path, err, d.log)
		}
	}
}

func (d *daemon) dress(cmd *exec.Cmd, u account) {
	cmd.Dir = d.dir // the account may not see the folder of the tests
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+d.dir)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	cmd.SysProcAttr = dieWithParent()
	if u.set {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
	}
	cmd.WaitDelay = time.Second
}

// stop ends the server, orderly if it does so within some seconds, since
// PostgreSQL keeps shared memory.
func (d *daemon) stop() {
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		timeout := time.NewTimer(10 * time.Second)
		defer timeout.Stop()
		select {
		case <-d.exited:
		case <-timeout.C:
			_ = d.cmd.Process.Kill()
			<-d.exited
		}
	}
	_ = os.RemoveAll(d.dir)
}

// account is whom a server runs as. Root lends itself to none of them.
type account struct {
	set      bool
	uid, gid uint32
}

// accountOf returns the first of the users that there is, if the tests run as
// root, and otherwise who they run as.
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

// transcript keeps the end of what a server printed.
type transcript struct {
	mu   sync.Mutex
	text []byte
}

func (l *transcript) Write(b []byte) (int, error) {
	const keep = 8 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-keep):]
	return len(b), nil
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
