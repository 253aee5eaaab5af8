package live

import (
	"strings"
	"sync"
	"testing"
)

// Every control of a quorum breaks, in few histories. TestPlay in lab/programme plays those of one Redis.
func TestControlsBreak(t *testing.T) {
	controls := Controls("holdfast-quorum")
	if n := len(controls) + len(Controls("holdfast")); n != len(allControls()) {
		t.Errorf("%d of %d controls can be played", n, len(allControls()))
	}
	var all sync.WaitGroup
	lanes := make(chan *Runner, 2)
	for range cap(lanes) {
		lane := NewRunner()
		defer lane.Close()
		lanes <- lane
	}
	for _, c := range controls {
		all.Go(func() {
			lane := <-lanes
			defer func() { lanes <- lane }()
			r := c.Play(t.Context(), lane)
			if text := r.Passed(); text != "" {
				t.Error(text)
			}
			t.Logf("%s: broken by %v in history %d, %v", r.Name, r.By, r.Played, r.Took)
		})
	}
	all.Wait()
}

// A control without its fault does not break, and is reported.
func TestControlThatHoldsIsReported(t *testing.T) {
	lane := NewRunner()
	defer lane.Close()
	sound := Control{Name: "a sound one", Checks: twoHolders(), Program: crowd("holdfast", 1, NoRenewal, nil)}
	sound.Program.Length = 200 * ms
	if r := sound.play(t.Context(), lane, 2); r.Broken || r.Played != 2 || !strings.Contains(r.Passed(), "a sound one held in 2 histories") {
		t.Errorf("%+v: %q", r, r.Passed())
	}
}
