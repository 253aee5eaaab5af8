package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// offClock is a node whose clock is wrong and which answers after a while.
type offClock struct {
	engine.Engine
	by, after time.Duration
}

func (o offClock) Now(ctx context.Context) (time.Time, error) {
	travel(o.after)
	now, err := o.Engine.Now(ctx)
	return now.Add(o.by), err
}

// One wrong clock of three has no effect, whichever it is, and whether it answers first or last.
func TestOneWrongClockDoesNotCount(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		for wrong := range 3 {
			for first := range 3 {
				synctest.Test(t, func(t *testing.T) {
					var nodes []engine.Engine
					for i := range 3 {
						n := offClock{Engine: memory.New(), after: time.Duration((i-first+3)%3+1) * time.Millisecond}
						if i == wrong {
							n.by = by
						}
						nodes = append(nodes, n)
					}
					start := time.Now()
					now, err := quorum.New(nodes...).Now(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if off := now.Sub(start); off < 0 || off > time.Second {
						t.Errorf("node %d is wrong by %v, node %d answers first: the time is wrong by %v", wrong+1, by, first+1, off)
					}
				})
			}
		}
	}
}
