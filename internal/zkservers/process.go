//go:build unix

package zkservers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	log    *logTail
	exited chan struct{} // closed when the process has ended and Wait has returned
}

// launch starts a server with a configuration.
func launch(dir, config string) (*process, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("no Java runtime: run make databases, or see .ci/zookeeper: %w", err)
	}
	jars, err := classPath()
	if err != nil {
		return nil, err
	}
	p := &process{log: &logTail{}, exited: make(chan struct{})}
	p.cmd = exec.Command(java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", // if that logger is there
		"-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = redistest.DieWithParent()
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its log has the cause
	}()
	return p, nil
}

// classPath returns where ZooKeeper is: in ZOOKEEPER_HOME, or where packages put it.
func classPath() (string, error) {
	patterns := []string{
		"/usr/share/java/zookeeper.jar", // Debian, whose file names what it needs
		"/opt/homebrew/opt/zookeeper/libexec/lib/*.jar", "/usr/local/opt/zookeeper/libexec/lib/*.jar",
		"/usr/share/zookeeper/lib/*.jar", "/opt/zookeeper/lib/*.jar",
	}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		patterns = append([]string{filepath.Join(home, "lib", "*.jar")}, patterns...)
	}
	for _, pattern := range patterns {
		if jars, err := filepath.Glob(pattern); err == nil && len(jars) > 0 {
			jars = append(jars, "/usr/share/java/slf4j-simple.jar") // Debian's own has no logger
			return strings.Join(jars, string(os.PathListSeparator)), nil
		}
	}
	return "", errors.New("ZooKeeper is missing: run make databases, or see .ci/zookeeper")
}

func (p *process) pause() error { return redistest.Pause(p.cmd.Process) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the process, even if it is stopped, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.exited
}

// logTail keeps the end of what a server printed.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

func (l *logTail) Write(b []byte) (int, error) {
	const keep = 16 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-keep):]
	return len(b), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
