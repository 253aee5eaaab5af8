package keepalive

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// quitter is a keeper that ends its goroutine in every call.
type quitter struct{ *holder }

func (q quitter) Renewed(took time.Duration) {
	q.holder.Renewed(took)
	runtime.Goexit()
}

func (q quitter) Jeopardy(err error, took time.Duration) {
	q.holder.Jeopardy(err, took)
	runtime.Goexit()
}

func (q quitter) Lost(cause *engine.NotHeldError, last error) (free, report func()) {
	q.holder.Lost(cause, last)
	return runtime.Goexit, runtime.Goexit
}

// A keeper that ends its goroutine, as a hook may, keeps nothing from the others:
// renewals, trouble and losses reach every one, at the same moment.
func TestKeeperMayEndItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		var all []*holder
		for i := range 2 * batchSize {
			h := newHolder(s, fmt.Sprint(i), 15*time.Second)
			if i%3 == 0 {
				h.entry.Keeper = quitter{h}
			}
			s.Add(&h.entry, Usual)
			all = append(all, h)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		st.mu.Lock()
		st.answer = func(ctx context.Context, r engine.Renewal) error { return unreachable(ctx, r) }
		st.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, h := range all {
			if h.renewed < 11 || h.jeopardy < 5 || h.lost != 1 || h.lostAt != all[0].lostAt {
				t.Fatalf("keeper %d: renewed %d times, in jeopardy %d times, lost %d times at %v; want 11, 5, 1 at %v",
					i, h.renewed, h.jeopardy, h.lost, h.lostAt, all[0].lostAt)
			}
		}
	})
}
