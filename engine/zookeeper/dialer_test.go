package zookeeper

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that accepts a connection and does not answer is left in time.
func TestDialerLeavesAHungServer(t *testing.T) {
	t.Parallel()
	const session = 3 * time.Second
	proxy := redistest.NewProxy(t, sharedServer(t).Addr())
	proxy.Blackhole()
	tried := make(chan time.Time, 16)
	conn, _, err := zk.Connect([]string{proxy.Addr()}, session, zk.WithLogger(&logger{}), zk.WithDialer(Dialer(session/6)),
		zk.WithEventCallback(func(e zk.Event) {
			if e.State == zk.StateConnected {
				select {
				case tried <- time.Now():
				default:
				}
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first := <-tried
	select {
	case second := <-tried:
		if after := second.Sub(first); after < session/6 || after > 2*session {
			t.Errorf("tried again after %v", after)
		}
	case <-time.After(3 * session):
		t.Error("not tried again")
	}
	proxy.Heal()
	if _, _, err := conn.Exists("/"); err != nil && err != zk.ErrConnectionClosed {
		t.Error(err)
	}
}
