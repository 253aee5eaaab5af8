package primitivetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/random"
)

// failing is a script that fails as one without faults does.
type failing struct{ plays *int }

func (f failing) Play(s *Environment) []string {
	w := simulation{Environment: s}
	*f.plays++
	w.failCalm("play %d", *f.plays)
	return w.wrong
}

// failures collects the failures of a test.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

// The failure of a script after a stall is not dropped: the script is played again, until it
// fails without a stall, or has failed too often.
func TestFailuresAfterStalls(t *testing.T) {
	e := memory.New()
	for _, c := range []struct{ stalls, plays, failures int }{{0, 1, 1}, {2, 3, 1}, {1000, mostPlays, 1}} {
		plays := 0
		w := RealStore{AtOnce: 1, Open: func() (engine.Engine, func(), error) { return e, func() {}, nil },
			Silence: func(time.Time) time.Duration {
				if plays <= c.stalls {
					return time.Second
				}
				return 0
			}}
		f := &failures{TB: t}
		calm := w.play(f, Program{"calm", func(*random.T, int) Script { return failing{&plays} }, true}, 1)
		if plays != c.plays || len(f.said) != c.failures || calm != (c.stalls < mostPlays) {
			t.Errorf("%d stalls: %d plays, calm %v, %q", c.stalls, plays, calm, f.said)
		}
	}
}

// A minimum of scripts without stalls is required of programs without faults, but not of one
// that is replayed.
func TestFewCalm(t *testing.T) {
	for _, c := range []struct {
		w    RealStore
		calm int
		few  bool
	}{
		{RealStore{AtOnce: 12}, 2, true}, {RealStore{AtOnce: 12}, 3, false}, {RealStore{AtOnce: 1}, 0, true},
		{RealStore{AtOnce: 1}, 1, false}, {RealStore{AtOnce: 12, Seed: 7}, 0, false},
	} {
		if got := c.w.fewCalm(Program{faultless: true}, c.calm); got != c.few || c.w.fewCalm(Program{}, c.calm) {
			t.Errorf("%d calm of %d at once, seed %d: %v", c.calm, c.w.AtOnce, c.w.Seed, got)
		}
	}
}
