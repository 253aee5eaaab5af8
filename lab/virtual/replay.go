package virtual

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Save writes a result as the replay file of its program.
func (r Result) Save(file string) error { return history.Save(file, r) }

// Load reads a replay file, with the violations and history of the saved run.
func Load(file string) (Result, error) { return history.Load[Result](file) }

// Again runs a program until it fails, at most the given number of times, and returns
// the last result and the number of runs.
func Again(t *testing.T, p Program, most int) (r Result, played int) {
	for played = 1; ; played++ {
		if r = Play(t, p); len(r.Violations) > 0 || played >= most {
			return r, played
		}
	}
}

// replays is the greatest number of runs in Replay.
const replays = 200

// Replay runs the program of a replay file until it fails, at most 200 times. It needs no
// testing.T. It returns an error if the file cannot be read, or if Bubbles fails.
func Replay(file string) (r Result, played int, err error) {
	saved, err := Load(file)
	if err != nil {
		return Result{}, 0, err
	}
	err = Bubbles(func(t *testing.T) { r, played = Again(t, saved.Program, replays) })
	return r, played, err
}
