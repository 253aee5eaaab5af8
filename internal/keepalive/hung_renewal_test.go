package keepalive

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A renewal that gets no answer ends early enough for others to follow within the window, also
// if the engine waits as long as its ctx lasts.
func TestARenewalThatHangsIsRepeatedInTime(t *testing.T) {
	for _, ttl := range ttls() {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int32
				s := New(&store{answer: func(ctx context.Context, r engine.Renewal) error {
					if sent.Add(1) == 1 {
						return hung(ctx, r)
					}
					return nil
				}})
				defer s.Stop()
				h := newHolder(s, "a", ttl)
				s.Add(&h.entry, Usual)
				time.Sleep(2 * ttl)
				synctest.Wait()
				if h.jeopardy != 1 || h.lost != 0 {
					t.Errorf("%d renewals failed, the lease was lost %d times", h.jeopardy, h.lost)
				}
			})
		})
	}
}

// The cause of a loss is the outcome of the latest renewal. If that succeeded, the lease expired,
// whatever happened before.
func TestALossHasNoTroubleThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: unreachable}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", 15*time.Second)
		s.Add(&h.entry, Usual)
		time.Sleep(6 * time.Second)
		st.mu.Lock()
		st.answer = nil
		st.mu.Unlock()
		time.Sleep(time.Second)
		s.Remove(&h.entry)
		s.Add(&h.entry, Never) // no renewal follows
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.lost != 1 || h.last != nil || h.cause != nil {
			t.Errorf("lost %d times, by %v, %v", h.lost, h.last, h.cause)
		}
	})
}
