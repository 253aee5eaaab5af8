package process

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// A Doer is a client of a subject that does whole tasks inside its process: a load that would be
// too much for one line an operation.
type Doer interface {
	// Do does the task of a name. Its arguments and its result travel as JSON.
	Do(ctx context.Context, task string, args json.RawMessage) (result any, err error)
}

// Do has the client of the process, which must be a Doer, do a task, and stores its result unless that is
// nil. The errors are those of the task, and subject.ErrDead if the process ended.
func (p *Process) Do(ctx context.Context, task string, args, result any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	r, err := p.call(ctx, order{Call: callTask, Task: task, Args: text})
	if err = errors.Join(err, r.Err.receive()); err != nil || result == nil {
		return err
	}
	return json.Unmarshal(r.Result, result)
}

// task has the client do a task.
func (s *server) task(ctx context.Context, o order) report {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	result, err := do(ctx, c, o)
	if err != nil {
		return report{Err: send(err)}
	}
	text, err := json.Marshal(result)
	return report{Err: send(err), Result: text}
}

func do(ctx context.Context, c subject.Client, o order) (any, error) {
	d, ok := c.(Doer)
	if !ok {
		return nil, errors.New("the client does no tasks")
	}
	return d.Do(ctx, o.Task, o.Args)
}
