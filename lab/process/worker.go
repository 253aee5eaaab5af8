package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// StartWorker runs this very program again as a worker, whose settings are in the environment variable env as JSON.
// The worker ends when the pipe to its input is closed; see redistest.StartSelf.
func StartWorker(env string, settings any) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader, err error) {
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, nil, nil, err
	}
	return redistest.StartSelf(os.Stderr, env+"="+string(text))
}

// ServeWorker is the whole of a process that StartWorker has started. It decodes the settings into worker and calls work, with
// a ctx that ends with the input of the process. In any other process it returns false at once.
func ServeWorker(env string, worker any, work func(ctx context.Context) error) bool {
	text, ok := os.LookupEnv(env)
	if !ok {
		return false
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	err := json.Unmarshal([]byte(text), worker)
	if err == nil {
		err = work(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}
