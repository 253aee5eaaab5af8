package otelholdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// Leases that linger and wake-ups are those of Stats, of all clients that are observed.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		e := memory.New()
		c, other := m.client(t, e), m.client(t, e)
		var all []interface{ Unregister() error }
		for _, one := range []*holdfast.Client{c, other} {
			r, err := otelholdfast.Observe(one, otelholdfast.WithMeterProvider(m.meters))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		kept := lock(t, context.Background(), c.Mutex("kept", holdfast.WithLinger(time.Second)))
		held := lock(t, context.Background(), c.Mutex("held"))
		waiting := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := other.Mutex("held").Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			waiting <- l
		}()
		synctest.Wait()
		for _, l := range []*holdfast.Lease{kept, held} {
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}
		<-waiting
		synctest.Wait()
		received := c.Stats().Wakeups + other.Stats().Wakeups
		if received == 0 {
			t.Error("no wake-up although a waiter was granted the lease")
		}
		hasPoints(t, m, `holdfast.lease.count{holdfast.kind=mutex,holdfast.state=held} 1`,
			`holdfast.lease.count{holdfast.state=lingering} 1`, fmt.Sprintf(`holdfast.wakeups{} %d`, received))
		time.Sleep(2 * time.Second)
		hasPoints(t, m, `holdfast.lease.count{holdfast.state=lingering} 0`)
		for _, r := range all {
			if err := r.Unregister(); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(m.points(t), "\n"); strings.Contains(got, "wakeups") || strings.Contains(got, "lingering") {
			t.Errorf("after Unregister:\n%s", got)
		}
	})
}

func hasPoints(t *testing.T, m *telemetry, want ...string) {
	t.Helper()
	got := strings.Join(m.points(t), "\n")
	for _, line := range want {
		if !strings.Contains(got+"\n", line+"\n") {
			t.Errorf("no %s in:\n%s", line, got)
		}
	}
}

func TestObserveRefuses(t *testing.T) {
	c, err := holdfast.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, noClient := otelholdfast.Observe(nil)
	_, noOption := otelholdfast.Observe(c, nil)
	_, noProvider := otelholdfast.Observe(c, otelholdfast.WithMeterProvider(nil))
	if noClient == nil || noOption == nil || noProvider == nil {
		t.Errorf("no error: %v", errors.Join(noClient, noOption, noProvider))
	}
	if _, err := otelholdfast.Observe(c); err != nil {
		t.Errorf("with the global provider: %v", err)
	}
}
