package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// A CountDown that is not known to have counted is taken up by the next one.
func TestLatchUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFaulty()
		l, other := newClient(t, net).Latch("parts"), newClient(t, net.Engine).Latch("parts")
		mustSet(t, other, 3)
		loseButProbes(net)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		wantErr(t, l.CountDown(ctx), context.DeadlineExceeded, holdfast.ErrUnavailable)
		net.All(nil)
		wantCount(t, other, 2)
		mustCount(t, l) // the same again
		wantCount(t, other, 2)
		mustCount(t, l)
		wantCount(t, other, 1)
	})
}

// A CountDown that is not known to have counted is taken up by the next one of its round, also if one of an earlier round
// comes between them: that is given up late, or has read the round before it ended.
func TestLatchUnsettledOfTwoRounds(t *testing.T) {
	for _, earlier := range []string{"is given up", "goes on"} {
		t.Run(earlier, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newFaulty()
				l, other := newClient(t, net).Latch("parts"), newClient(t, net.Engine).Latch("parts")
				stop := func(where func(engine.Request) bool) (reached, resume chan struct{}) { // the first such request
					reached, resume = make(chan struct{}), make(chan struct{})
					net.Set(func() {
						net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
							a, err := net.Engine.Acquire(ctx, r)
							if !where(r) {
								return a, err
							}
							net.Set(func() { net.OnAcquire = nil })
							close(reached)
							<-resume
							if earlier == "is given up" {
								return engine.Answer{}, down(ctx)
							}
							return a, err
						}
					})
					return reached, resume
				}
				mustSet(t, other, 2)
				reached, resume := stop(func(r engine.Request) bool { // "goes on": it has read the round, and takes no unit yet
					return earlier == "goes on" || r.Kind == engine.KindLatchUnits
				})
				ctx, cancel := context.WithCancel(context.Background())
				first := make(chan error, 1)
				go func() { first <- l.CountDown(ctx) }()
				<-reached
				mustCount(t, other)
				mustCount(t, other)
				mustSet(t, other, 3)

				// The second counts in the new round, and does not know it.
				loseButProbes(net)
				short, end := context.WithTimeout(context.Background(), time.Second)
				defer end()
				wantErr(t, l.CountDown(short), holdfast.ErrUnavailable)
				net.All(nil)
				wantCount(t, other, 2)

				if earlier == "is given up" {
					cancel()
				}
				close(resume)
				<-first
				cancel()
				mustCount(t, l) // the second again
				wantCount(t, other, 2)
			})
		})
	}
}

// loseButProbes makes every request take effect without an answer, but for those that only read.
func loseButProbes(net *faulty) {
	loseEvery(net, 1)
	net.Set(func() {
		lost := net.OnAcquire
		net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			if r.Ballot != 0 {
				return net.Engine.Acquire(ctx, r)
			}
			return lost(ctx, r)
		}
	})
}
