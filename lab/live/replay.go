package live

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Save writes a result as the replay file of its program.
func (r Result) Save(file string) error { return history.Save(file, r) }

// Load reads a replay file. Its violations and history are those of the run that
// was saved. Errors: it cannot be read, or is that of another kind of run.
func Load(file string) (Result, error) {
	r, err := history.Load[Result](file)
	if err == nil && r.Kind != kindLive {
		return Result{}, fmt.Errorf("replay file %s: it is not that of a live run", file)
	}
	return r, err
}

// Again plays a program until it fails, at most so many times, and returns the
// last result that showed something and how often it was played. The error is that
// of the last run, if none has shown anything.
func (l *Runner) Again(ctx context.Context, p Program, most int) (last Result, played int, err error) {
	for played < most && ctx.Err() == nil {
		played++
		r, failed := l.Play(ctx, p)
		if failed != nil {
			err = failed
			continue
		}
		if last, err = r, nil; len(r.Violations) > 0 {
			break
		}
	}
	return last, played, err
}
