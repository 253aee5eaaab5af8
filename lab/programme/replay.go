package programme

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/live"
)

// Replayed is what came of playing a failure again.
type Replayed struct {
	Kind       string            `json:"kind"` // live or virtual
	Seed       uint64            `json:"seed"`
	Played     int               `json:"played"` // times, until it failed again or the time was over
	Before     []check.Violation `json:"before"` // of the run that was saved
	Violations []check.Violation `json:"violations"`
	File       string            `json:"file,omitempty"` // of the last run, if it failed
}

// Failed reports whether it failed again.
func (r Replayed) Failed() bool { return len(r.Violations) > 0 }

// liveReplays is how often a live program is played until it fails.
const liveReplays = 20

// Replay plays the program of a replay file again until it fails. What real
// processes and goroutines do is not the same each time, so a failure may need
// some runs to come again, or not come. The last failing run is left beside the
// file, with .again in its name. Errors: the file is none, or nothing could be
// played.
func Replay(ctx context.Context, file string) (Replayed, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Replayed{}, err
	}
	var head struct {
		Kind       string            `json:"kind"`
		Violations []check.Violation `json:"violations"`
		Program    struct {
			Seed  uint64 `json:"seed"`
			World string `json:"world"`
		} `json:"program"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return Replayed{}, fmt.Errorf("%s is no replay file: %w", file, err)
	}
	out := Replayed{Kind: head.Kind, Seed: head.Program.Seed, Before: head.Violations}
	again := strings.TrimSuffix(file, ".json") + ".again.json"
	var save func(string) error
	switch {
	case head.Kind == "live":
		saved, err := live.Load(file)
		if err != nil {
			return out, err
		}
		lane := live.NewRunner()
		defer lane.Close()
		r, played, err := lane.Again(ctx, saved.Program, liveReplays)
		if err != nil {
			return out, err
		}
		out.Played, out.Violations, save = played, r.Violations, r.Save
	case head.Program.World != "":
		out.Kind = "virtual"
		err := child(ctx, bubbleTask{Replay: file}, func(line bubbleResult) {
			if line.Result != nil {
				out.Played, out.Violations, save = line.Played, line.Result.Violations, line.Result.Save
			}
		})
		if err != nil {
			return out, err
		}
	default:
		return out, fmt.Errorf("%s is no replay file of the lab", file)
	}
	if out.Failed() && save != nil {
		out.File = again
		return out, save(again)
	}
	return out, nil
}

// Print says what came of it. Its error is ErrBroke if it failed again.
func (r Replayed) Print(w io.Writer) error {
	for _, v := range r.Before {
		fmt.Fprintf(w, "then: %v\n", v)
	}
	if !r.Failed() {
		fmt.Fprintf(w, "seed %d (%s) was played %d times and did not fail again\n", r.Seed, r.Kind, r.Played)
		return nil
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "now:  %v\n", v)
	}
	fmt.Fprintf(w, "seed %d (%s) failed again in run %d; its history is in %s\n", r.Seed, r.Kind, r.Played, r.File)
	return fmt.Errorf("%w: seed %d failed again", ErrBroke, r.Seed)
}
