package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// Forget ends the mark of a Once, and the work is done again.
func TestForget(t *testing.T) {
	c, err := holdfast.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	once := func() bool {
		ran, err := c.Once(ctx, "order:7", time.Hour, func(context.Context) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return ran
	}
	if err := c.Forget(ctx, "order:7"); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("before the work: %v, want ErrNotHeld", err)
	}
	if !once() || once() {
		t.Error("the work is not done once")
	}
	s, err := c.Snapshot(ctx, "order:7")
	if err != nil || s.Marked <= 59*time.Minute || s.Marked > time.Hour {
		t.Errorf("got %+v, %v, want it marked for an hour", s, err)
	}
	if err := c.Forget(ctx, "order:7"); err != nil {
		t.Fatal(err)
	}
	if s, err = c.Snapshot(ctx, "order:7"); err != nil || s.Marked != 0 {
		t.Errorf("got %+v, %v, want no mark", s, err)
	}
	if !once() {
		t.Error("the work is not done again")
	}

	latch := c.Latch("batch")
	if set, err := latch.TrySet(ctx, 1); !set || err != nil {
		t.Fatal(set, err)
	}
	if err := latch.CountDown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Forget(ctx, "batch"); !errors.Is(err, holdfast.ErrMismatch) {
		t.Errorf("a latch that is open: %v, want ErrMismatch", err)
	}
	if err := c.Forget(ctx, ""); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no name: %v", err)
	}
}

func TestLeaseResource(t *testing.T) {
	c, err := holdfast.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one, err := c.Mutex("stock:42").Lock(t.Context())
	if err != nil || one.Resource() != "stock:42" {
		t.Errorf("got %q, %v", one.Resource(), err)
	}
	two, err := c.Multi([]string{"b", "a"}).Lock(t.Context())
	if err != nil || two.Resource() != "b" {
		t.Errorf("got %q, %v", two.Resource(), err)
	}
}

// An engine that cannot work is an error of New, not of the first Lock.
func TestNewChecksTheEngine(t *testing.T) {
	var noClient *redis.Client
	idle := redis.NewClient(&redis.Options{})
	defer idle.Close()
	for name, e := range map[string]engine.Engine{
		"nil":               goredis.New(nil),
		"a nil client":      goredis.New(noClient),
		"a bad option":      goredis.New(idle, goredis.WithReplicas(-1, time.Second)),
		"no nodes":          quorum.New(),
		"a nil node":        quorum.New(memory.New(), nil),
		"a node of nothing": quorum.New(memory.New(), goredis.New(nil), memory.New()),
	} {
		if c, err := holdfast.New(e); c != nil || !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: got %v, %v, want ErrInvalid", name, c, err)
		}
	}
}
