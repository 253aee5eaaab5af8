//go:build unix

package etcdservers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// process is one run of etcdmember.
type process struct {
	cmd    *exec.Cmd
	log    *memberLog
	exited chan struct{}
}

// program returns the path of etcdmember, which it builds if need be.
func program() (string, error) {
	root, err := goOutput("", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast")
	if err != nil {
		return "", err
	}
	return goOutput(filepath.Join(root, "internal/etcdservers/etcdmember"), "tool", "-n", "etcdmember")
}

// goOutput returns what a go command prints. A folder means that of a module of its own.
func goOutput(module string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	if cmd.Dir = module; module != "" {
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// launch starts a member.
func launch(path, argument string) (*process, error) {
	p := &process{cmd: exec.Command(path, argument), log: &memberLog{ready: make(chan struct{})}, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = redistest.DieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its log has the cause
	}()
	return p, nil
}

// awaitReady waits until the member serves.
func (p *process) awaitReady() error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-p.log.ready:
		return nil
	case <-p.exited:
		return fmt.Errorf("%w; it said:\n%s", errEnded, p.log)
	case <-timeout.C:
		return fmt.Errorf("etcd is not ready after %v; it said:\n%s", startTimeout, p.log)
	}
}

// kill ends the process, even if it is stopped, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.exited
}

// memberLog keeps the end of what a member prints, and detects when it is ready.
type memberLog struct {
	ready chan struct{}

	mu   sync.Mutex
	text []byte
	seen bool
}

func (l *memberLog) Write(b []byte) (int, error) {
	const most = 8 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if !l.seen && bytes.Contains(l.text, []byte("ready\n")) {
		l.seen = true
		close(l.ready)
	}
	if len(l.text) > 2*most {
		l.text = bytes.Clone(l.text[len(l.text)-most:])
	}
	return len(b), nil
}

func (l *memberLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
