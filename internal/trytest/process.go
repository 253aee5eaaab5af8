//go:build unix

package trytest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// processEnv is set in a process that a test has started, to its part.
const processEnv = "HOLDFAST_TRYTEST"

// part is what a process does.
type part struct {
	Holds  bool // it holds until its input ends, otherwise it tries once
	Addrs  []string
	Prefix string
}

// outcome is what a process that tried prints.
type outcome struct {
	Granted bool
	Token   uint64
	Error   string        // other than that the lease is held
	Took    time.Duration // for the TryLock
}

// Main plays the part of a process that a test has started, and ends it. In any other process it does nothing. open
// returns an engine on the store, and what closes it.
func Main(open func(addrs []string) (engine.Engine, func(), error)) {
	text := os.Getenv(processEnv)
	if text == "" {
		return
	}
	if err := play(text, open); err != nil {
		fmt.Fprintln(os.Stderr, "trytest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(text string, open func(addrs []string) (engine.Engine, func(), error)) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	e, closeStore, err := open(p.Addrs)
	if err != nil {
		return err
	}
	defer closeStore()
	c, err := holdfast.New(e, holdfast.WithPrefix(p.Prefix))
	if err != nil {
		return err
	}
	defer c.Close()
	m := c.Mutex("job", holdfast.WithTTL(ttl))
	if p.Holds {
		return hold(m)
	}
	return json.NewEncoder(os.Stdout).Encode(tryOnce(m))
}

// hold prints its token, and for each line of input whether the lease is held or lost.
func hold(m *holdfast.Mutex) error {
	lease, err := m.Lock(context.Background())
	if err != nil {
		return err
	}
	fmt.Println(lease.Token())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lease.Err() == nil {
			fmt.Println("held")
		} else {
			fmt.Println("lost")
		}
	}
	return lease.Release(context.Background())
}

func tryOnce(m *holdfast.Mutex) (got outcome) {
	began := time.Now()
	lease, err := m.TryLock(context.Background())
	got.Took = time.Since(began)
	if err == nil {
		got.Granted, got.Token = true, lease.Token()
		err = lease.Release(context.Background())
	}
	if err != nil && !errors.Is(err, holdfast.ErrNotAcquired) {
		got.Error = err.Error()
	}
	return got
}

// start starts a process.
func start(t testing.TB, p part) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	p.Prefix = t.Name()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd, in, stdout, err := redistest.StartSelf(os.Stderr, processEnv+"="+string(text))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(stdout)
}

// try runs a process that tries once.
func try(t testing.TB, addrs []string) (got outcome) {
	t.Helper()
	cmd, in, out := start(t, part{Addrs: addrs})
	defer in.Close()
	err := json.NewDecoder(out).Decode(&got)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	return got
}

// holder is a process that holds.
type holder struct {
	cmd   *exec.Cmd
	in    io.Writer
	out   *bufio.Reader
	token uint64
}

// startHolder starts a holder, which is killed at the end of the test.
func startHolder(t testing.TB, addrs []string) *holder {
	t.Helper()
	h := &holder{}
	h.cmd, h.in, h.out = start(t, part{Holds: true, Addrs: addrs})
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill() // it may have been killed already
		_ = h.cmd.Wait()
	})
	if _, err := fmt.Fscanln(h.out, &h.token); err != nil {
		t.Fatal(err)
	}
	return h
}

// state returns what a holder says of its lease.
func (h *holder) state(t testing.TB) string {
	t.Helper()
	if _, err := fmt.Fprintln(h.in); err != nil {
		t.Fatal(err)
	}
	line, err := h.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
