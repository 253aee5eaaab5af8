package quorum

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Calls that were lost in an outage do not affect the health of a node that has answered a later
// call: neither while they are unanswered nor when they fail.
func TestLostCallsOfAnOutageThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		call := func() *nodeCall {
			c := &nodeCall{}
			n.startCall(c, time.Now())
			return c
		}
		lost := call()
		<-time.After(downAfter)
		if h := n.health(time.Now()); h != down {
			t.Errorf("a silent node: health %d, want %d", h, down)
		}
		n.endCall(call(), nil)
		<-time.After(time.Second)
		if h := n.health(time.Now()); h != healthy {
			t.Errorf("a node that has answered the latest call: health %d, want %d", h, healthy)
		}
		n.endCall(lost, fmt.Errorf("%w: i/o timeout", engine.ErrUnavailable))
		if h := n.health(time.Now()); h != healthy {
			t.Errorf("after the end of a call that was lost before: health %d, want %d", h, healthy)
		}
		call()
		<-time.After(downAfter)
		if h := n.health(time.Now()); h != down {
			t.Errorf("silent again: health %d, want %d", h, down)
		}
	})
}
