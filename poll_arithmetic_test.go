package holdfast

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// What a request may take to the store or back, in all the sums below.
const network = 400 * time.Millisecond

// A waiter polls at least once a second and repeats a request that is not answered in
// time. The third request reaches the store before the place of the first one expires.
func TestOneUnansweredPollLeavesTheMargin(t *testing.T) {
	longest := time.Duration(0)
	for range 10_000 {
		longest = max(longest, (&backoff{}).next())
		sent := time.Now()
		if d := pollIn(engine.Answer{}, sent); d > engine.PollInterval || d < engine.PollInterval-2*pollJitter {
			t.Fatalf("a waiter polls again after %v", d)
		}
		if d := pollIn(engine.Answer{Position: 3, Next: time.Hour}, sent); d > engine.PollInterval {
			t.Fatalf("a waiter near the front polls again after %v", d)
		}
		if d := pollIn(engine.Answer{Next: time.Second / 2}, sent.Add(-time.Hour)); d > 0 {
			t.Fatalf("a waiter whose answer was late polls again after %v", d)
		}
	}
	third := engine.PollInterval + requestTimeout + longest + network
	if third > engine.WaiterLife-50*time.Millisecond {
		t.Errorf("the request after one without an answer comes after %v; a place is kept for %v", third, engine.WaiterLife)
	}
}

// A grant is pushed when a request of its waiter has just been lost. The next request is
// lost too, and the answer to the one after it arrives within the trust window of the
// claim.
func TestPushedGrantOutlivesAnUnansweredPoll(t *testing.T) {
	window := engine.ClaimWindow - keepalive.Margin(engine.ClaimWindow)
	if claimed := network + requestTimeout + 15*time.Millisecond + 2*network; claimed > window {
		t.Errorf("the claim is confirmed after %v; its window is %v", claimed, window)
	}
}
