package otelholdfast_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// slowHook holds up the hooks behind it.
type slowHook struct{}

func (slowHook) AcquireEnd(context.Context, holdfast.AcquireEndEvent) {
	<-time.After(3 * holdfast.MinTTL)
}

// A lease that is lost before its grant is reported is counted as lost, and not as held.
func TestLostBeforeItsGrantIsReported(t *testing.T) {
	m := newTelemetry(t)
	c, err := holdfast.New(memory.New(), holdfast.WithHooks(slowHook{}, m.hook))
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Mutex("x", holdfast.WithTTL(holdfast.MinTTL), holdfast.WithoutRenewal()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Release(t.Context())
	_ = c.Close()
	got := strings.Join(m.points(t), "\n")
	if strings.Contains(got, "state=held} 1") || !strings.Contains(got, "holdfast.lease.losses") {
		t.Errorf("after Close:\n%s", got)
	}
}
