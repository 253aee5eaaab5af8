package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Client.Now is the store's time, and a snapshot says that a lease is breaking.
func TestNowAndBreaking(t *testing.T) {
	ctx := t.Context()
	on := memory.New()
	c, err := holdfast.New(on)
	if err != nil {
		t.Fatal(err)
	}
	other, err := holdfast.New(on)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l, err := c.Mutex("r").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.Now(ctx)
	s, failure := other.Snapshot(ctx, "r")
	if err != nil || failure != nil || now.Before(s.Holders[0].Since) || now.Sub(s.Holders[0].Since) > time.Minute || s.Holders[0].Breaking {
		t.Errorf("%v, %v; %+v, %v", now, err, s, failure)
	}
	if err := other.Break(ctx, "r", l.HolderID()); err != nil {
		t.Fatal(err)
	}
	// The holder learns of it at its next renewal, in seconds.
	if s, err := other.Snapshot(ctx, "r"); err != nil || len(s.Holders) != 1 || !s.Holders[0].Breaking {
		t.Errorf("%+v, %v; want a breaking lease", s, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Now(ended); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("with a ctx that has ended: %v", err)
	}
	_ = c.Close() // it reports the broken lease
	if _, err := c.Now(ctx); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
