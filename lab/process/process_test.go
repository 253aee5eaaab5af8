package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/subject"
)

func TestMain(m *testing.M) {
	logging.Disable()
	if process.Serve(append(subject.All(), adders()...)) {
		return
	}
	os.Exit(m.Run())
}

// adder is a client that does a task, and locks nothing.
type adder struct{ subject.Client }

func adders() subject.Catalog {
	return subject.Catalog{{ID: "adder", Open: func(subject.Setup) (subject.Client, error) { return adder{}, nil }}}
}

func (adder) Do(ctx context.Context, task string, args json.RawMessage) (any, error) {
	var all []int
	if err := json.Unmarshal(args, &all); err != nil {
		return nil, err
	}
	switch task {
	case "add":
		return all[0] + all[1], nil
	case "wait":
		<-ctx.Done()
		return nil, subject.ErrBusy
	}
	return nil, errors.New("no task " + task)
}

func (adder) Close() error { return nil }

func TestAProcessDoesATask(t *testing.T) {
	p := start(t)
	open(t, p, process.Spec{Subject: "adder"}, nil)
	var sum int
	if err := p.Do(t.Context(), "add", []int{2, 3}, &sum); err != nil || sum != 5 {
		t.Fatalf("%d, %v", sum, err)
	}
	if err := p.Do(t.Context(), "nothing", []int{}, nil); err == nil || !strings.Contains(err.Error(), "no task nothing") {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Do(ctx, "wait", []int{}, nil); !errors.Is(err, subject.ErrBusy) {
		t.Fatalf("a task whose ctx ended: %v", err)
	}
	open(t, p, process.Spec{Subject: "holdfast", Nodes: []string{redistest.Start(t).Addr()}, TTL: time.Minute}, nil)
	if err := p.Do(t.Context(), "add", []int{2, 3}, &sum); err == nil || !strings.Contains(err.Error(), "does no tasks") {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Do(t.Context(), "add", []int{2, 3}, &sum); !errors.Is(err, subject.ErrDead) {
		t.Fatal(err)
	}
}

// start makes a client process that ends with the test.
func start(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func open(t *testing.T, p *process.Process, spec process.Spec, point subject.Point) subject.Client {
	t.Helper()
	c, err := p.Open(t.Context(), spec, point, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClientInAProcessLocks(t *testing.T) {
	s := redistest.Start(t)
	spec := process.Spec{Subject: "holdfast", Client: "a", Nodes: []string{s.Addr()}, TTL: time.Minute}
	a, b := open(t, start(t), spec, nil), open(t, start(t), spec, nil)
	h, err := a.Acquire(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if h.Token() == 0 || time.Until(h.Until()) < 50*time.Second || h.Err() != nil {
		t.Fatalf("token %d until %v: %v", h.Token(), h.Until(), h.Err())
	}
	if _, err := b.Try(t.Context(), "stock"); !errors.Is(err, subject.ErrBusy) {
		t.Fatalf("b: %v", err)
	}
	if err := h.Renew(t.Context()); !errors.Is(err, subject.ErrNoRenewal) {
		t.Fatal(err)
	}
	again, err := a.Acquire(h.Within(t.Context()), "stock")
	if err != nil || again.Token() != h.Token() {
		t.Fatalf("re-entry: %v", err)
	}
	if err := errors.Join(again.Release(t.Context()), h.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("the end of the hold is not reported")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	s := redistest.Start(t)
	spec := process.Spec{Subject: "token-lua", Client: "a", Nodes: []string{s.Addr()}, TTL: time.Minute}
	a := open(t, start(t), spec, nil)
	if _, err := a.Acquire(t.Context(), "stock"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx, "stock"); err == nil || ctx.Err() == nil {
		t.Fatalf("got %v", err)
	}
}

func TestPointsAreDecidedByTheParent(t *testing.T) {
	s := redistest.Start(t)
	spec := process.Spec{Subject: "setnx-expire", Client: "a", Nodes: []string{s.Addr()}, TTL: time.Minute}
	p := start(t)
	var seen []string
	a := open(t, p, spec, func(_ context.Context, step string) error {
		seen = append(seen, step)
		return subject.ErrDead
	})
	if _, err := a.Acquire(t.Context(), "stock"); !errors.Is(err, subject.ErrDead) || len(seen) != 1 || seen[0] != "acquire.setnx" {
		t.Fatalf("%v at %q", err, seen)
	}
	if err := p.Stop(); err != nil || p.Alive() {
		t.Fatalf("stop: %v", err)
	}
}

func TestAStoppedProcessAnswersAfterItsPause(t *testing.T) {
	s := redistest.Start(t)
	p := start(t)
	a := open(t, p, process.Spec{Subject: "token-lua", Client: "a", Nodes: []string{s.Addr()}, TTL: time.Minute}, nil)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := a.Acquire(context.Background(), "stock")
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("a stopped process answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestAKilledProcessIsDead(t *testing.T) {
	s := redistest.Start(t)
	p := start(t)
	a := open(t, p, process.Spec{Subject: "token-lua", Client: "a", Nodes: []string{s.Addr()}, TTL: time.Minute}, nil)
	h, err := a.Acquire(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil || p.Alive() {
		t.Fatal(err)
	}
	if err := h.Err(); !errors.Is(err, subject.ErrDead) {
		t.Fatal(err)
	}
}

// A step of the wall clock is seen by what reads the time in the process, and by
// nobody else; what it reports is by the machine's clock.
func TestTheClockOfOneProcessSteps(t *testing.T) {
	s := redistest.Start(t)
	p := start(t)
	spec := process.Spec{Subject: "timestamp-getset", Client: "a", Nodes: []string{s.Addr()}, TTL: time.Minute, Steps: process.CanStep()}
	a := open(t, p, spec, nil)
	err := p.Step(-time.Hour)
	if process.CanStep() != (err == nil) {
		t.Fatal(err)
	}
	if err != nil {
		return
	}
	if _, err := a.Acquire(t.Context(), "stock"); err != nil {
		t.Fatal(err)
	}
	ms, err := s.Client().Get(t.Context(), "stock").Int64()
	if err != nil {
		t.Fatal(err)
	}
	if ahead := time.Until(time.UnixMilli(ms)); ahead > -50*time.Minute || ahead < -70*time.Minute {
		t.Fatalf("the deadline that it stored is %v ahead", ahead)
	}
	if err := p.Step(time.Millisecond); err == nil {
		t.Fatal("it stepped by less than a second")
	}
	spec.Subject = "holdfast"
	h, err := open(t, p, spec, nil).Acquire(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Step(-time.Hour); err != nil {
		t.Fatal(err)
	}
	if h.Err() != nil {
		t.Fatalf("Holdfast lost its lease by a clock that stepped back: %v", h.Err())
	}
	if left := time.Until(h.Until()); left > time.Minute || left < 30*time.Second {
		t.Fatalf("its window is reported to last %v", left)
	}
}

func TestAnUnknownSubjectIsAnError(t *testing.T) {
	if _, err := start(t).Open(t.Context(), process.Spec{Subject: "nothing"}, nil, nil); err == nil {
		t.Fatal("opened")
	}
}
