package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// TestWaitLines waits for 150 s of virtual time where there is no terminal.
func TestWaitLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		lease, err := client(t, on, "report\x1b[31m").Mutex("r").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ahead, end := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			_, _ = client(t, on, "other").Mutex("r").Lock(ahead)
		}()
		synctest.Wait()

		var stderr bytes.Buffer
		wait := span(150 * time.Second)
		c := &guarded{verb: "run", Resource: "r", Wait: &wait}
		s := &session{Client: client(t, on, "holdfast run true"), at: "memory"}
		m := s.Mutex("r", holdfast.WithoutTenure())
		c.lock = lock{wait: m.Lock, try: m.TryLock}
		_, err = c.acquire(s, make(chan os.Signal), newReporter(&stderr, c), c.firstTry)
		if _, ok := errors.AsType[*busyError](err); !ok {
			t.Errorf("got %v, want that it is held", err)
		}
		if strings.Contains(stderr.String(), lease.HolderID()) {
			t.Errorf("a holder ID without -v in\n%s", stderr.String())
		}
		var got []string
		for line := range strings.Lines(stderr.String()) {
			got = append(got, regexp.MustCompile(` on host .*`).ReplaceAllString(strings.TrimSpace(line), ""))
		}
		want := []string{
			`holdfast: waiting: "r" is held by report\x1b[31m`,
			`holdfast: waiting for 1m0s, position 2 of 2: "r" is held by report\x1b[31m`,
			`holdfast: waiting for 2m0s, position 2 of 2: "r" is held by report\x1b[31m`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		end()
		<-left
		_ = lease.Release(t.Context())
	})
}

// TestWaitVerbLines: holdfast wait reports the holder once a minute.
func TestWaitVerbLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		if _, err := client(t, on, "report").Mutex("r").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		wait := span(150 * time.Second)
		c := &waitCmd{Resource: "r", Wait: &wait, ConflictExitCode: exitBusy}
		g := &guarded{verb: "wait", Resource: "r"}
		s := &session{Client: client(t, on, "holdfast wait"), at: "memory"}
		err := c.await(t.Context(), s, g.progress(s, newReporter(&stderr, g), time.Now()))
		if _, ok := errors.AsType[*busyError](err); !ok {
			t.Errorf("got %v, want that it is held", err)
		}
		got := regexp.MustCompile(`(?m) on host .*`).ReplaceAllString(stderr.String(), "")
		want := `holdfast: waiting: "r" is held by report
holdfast: waiting for 1m0s: "r" is held by report
holdfast: waiting for 2m0s: "r" is held by report
`
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// TestCandidateLines: a candidate prints another leader and an outage, not each minute.
func TestCandidateLines(t *testing.T) {
	var stderr bytes.Buffer
	c := &guarded{verb: "elect", Resource: "e", shown: "a.1"}
	p := &progress{c: c, s: &session{at: "memory"}, say: newReporter(&stderr, c), start: time.Now(), changes: true, shown: c.shown}
	led := func(id string) look {
		return look{snap: holdfast.Snapshot{Resource: "e", Holders: []holdfast.Holder{{ID: id, Name: "node-" + id}}}}
	}
	for _, l := range []look{led("a.1"), led("a.1"), led("b.1"), led("b.1"), {err: holdfast.ErrUnavailable}, {err: holdfast.ErrUnavailable}, led("b.1")} {
		p.report(l)
	}
	got := regexp.MustCompile(`(?m) on host .*`).ReplaceAllString(stderr.String(), "")
	want := `holdfast: waiting for 0s: "e" is held by node-b.1
holdfast: waiting for 0s: the store (memory) does not answer
holdfast: waiting for 0s: "e" is held by node-b.1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A wait for several resources names the one that others hold, if the store does not show
// the place of this process.
func TestWaitForSeveral(t *testing.T) {
	on := memory.New()
	mine, theirs := client(t, on, "holdfast run true"), client(t, on, "report")
	for name, c := range map[string]*holdfast.Client{"a": mine, "b": theirs, "c": mine} {
		if _, err := c.Mutex(name).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p := &progress{c: &guarded{verb: "run"}, s: &session{Client: mine, at: "memory"}, names: []string{"a", "b", "c", "free"}}
	found := make(chan look, 1)
	p.read(t.Context(), found)
	if l := <-found; l.err != nil || l.snap.Resource != "b" {
		t.Errorf("read %q, %v; want b", l.snap.Resource, l.err)
	}
}

// client returns a client of this process if its name is that of the command, otherwise one
// of process 7 on another host.
func client(t *testing.T, on engine.Engine, name string) *holdfast.Client {
	t.Helper()
	opts := []holdfast.Option{holdfast.WithName(name)}
	if !strings.HasPrefix(name, "holdfast ") {
		opts = append(opts, holdfast.WithMeta(holdfast.Meta{Host: "node-2", PID: 7}))
	}
	c, err := holdfast.New(on, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
