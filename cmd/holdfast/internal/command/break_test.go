package command

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/memory"
)

// break --all breaks no latch, and none of its counts, which would be forgotten.
func TestBreakAllLeavesLatches(t *testing.T) {
	on := memory.New()
	c := client(t, on, "report")
	latch := c.Latch("parts")
	if set, err := latch.TrySet(t.Context(), 2); !set || err != nil {
		t.Fatal(set, err)
	}
	if err := latch.CountDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease, err := c.Mutex("pages").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	targets, err := (&breakCmd{All: "pa*"}).matching(&env{}, &session{Client: c, at: "memory"})
	if err != nil || len(targets) != 1 || targets[0].id != lease.HolderID() {
		t.Errorf("%+v, %v; want the lease on pages alone", targets, err)
	}
}

// A mark is named before it is broken.
func TestBreakNamesAMark(t *testing.T) {
	on := memory.New()
	c := client(t, on, "report")
	if ran, err := c.Once(t.Context(), "order-1", time.Hour, func(context.Context) error { return nil }); !ran || err != nil {
		t.Fatal(ran, err)
	}
	targets, err := (&breakCmd{Resource: "order-1", HolderID: "mark", DryRun: true}).targets(&env{}, &session{Client: c, at: "memory"}, false)
	if err != nil || len(targets) != 1 || !strings.HasPrefix(targets[0].words, `the mark of "order-1" as done, for another `) {
		t.Errorf("%+v, %v", targets, err)
	}
}

// Only a yes breaks, not an empty answer or the end of the input.
func TestBreakNeedsAYes(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, " Yes \n": true, "\n": false, "": false, "n\n": false, "yeah\n": false} {
		err := (&breakCmd{}).confirm([]target{{words: "the lease"}}, strings.NewReader(answer), io.Discard)
		if (err == nil) != yes {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
