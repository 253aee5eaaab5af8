package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// workerBoard in the environment makes the program a worker; its value is the
// path of the board.
const workerBoard = "HOLDFAST_BENCH_BOARD"

// job is one job of a worker. The worker opens the clients, sends that it is ready, waits
// for the window, runs, and sends its report.
type job struct {
	Kind      string // crowd, convoy, hold, await, used, visit or idle
	Contender string
	Addrs     []string
	Resource  string
	Process   int // index of this worker
	Clients   int // of this worker
	Callers   int // of each client
	First     int // the number of the first caller of this worker
	All       int // callers of all workers
	Own       bool
	Each      int // resources of a caller
	Readers   bool
	Writes    time.Duration // a writer among the readers of the first worker waits so long between two turns; 0: none
	Hold      time.Duration
	Think     time.Duration // maximum of a random pause after each turn
	TTL       time.Duration
	Pool      int
	Leases    int
}

// window is the time in which the turns of a crowd are counted, by the clock of the
// machine. Turns before From are not counted.
type window struct{ From, Until time.Time }

// order is a message to a worker, answer a message from it.
type order struct {
	Job    *job    `json:",omitempty"`
	Window *window `json:",omitempty"`
}

type answer struct {
	Ready  bool    `json:",omitempty"`
	Report *report `json:",omitempty"`
	Err    string  `json:",omitempty"`
}

// task is a running job of a worker.
type task interface {
	run(ctx context.Context, w window) (*report, error)
	close()
}

// work is the main loop of a worker process. It runs jobs until its input ends.
func work(boardPath string, in io.Reader, out io.Writer) error {
	b, err := mapBoard(boardPath)
	if err != nil {
		return err
	}
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(serve(b, *o.Job, orders, answers)); err != nil {
			return err
		}
	}
}

// serve runs one job and returns its last answer.
func serve(b *board, j job, orders *json.Decoder, answers *json.Encoder) answer {
	t, err := prepare(b, j)
	if err != nil {
		return answer{Err: fmt.Sprintf("%s, %s: prepare: %v", j.Kind, j.Contender, err)}
	}
	defer t.close()
	if err := answers.Encode(answer{Ready: true}); err != nil {
		return answer{Err: err.Error()}
	}
	var o order
	if err := orders.Decode(&o); err != nil || o.Window == nil {
		return answer{Err: fmt.Sprintf("no window: %v", err)}
	}
	r, err := t.run(context.Background(), *o.Window)
	if err != nil {
		return answer{Err: fmt.Sprintf("%s, %s: %v", j.Kind, j.Contender, err)}
	}
	return answer{Report: r}
}

func prepare(b *board, j job) (task, error) {
	c, err := contenderNamed(j.Contender)
	if err != nil {
		return nil, err
	}
	switch j.Kind {
	case "crowd":
		return newCrowd(b, c, j)
	case "convoy":
		w, err := newCrowd(b, c, j)
		return convoy{w}, err
	case "hold", "await", "used", "visit":
		return newLockSet(b, c, j)
	case "idle":
		return newIdleLeases(c, j)
	}
	return nil, fmt.Errorf("no kind of job %q", j.Kind)
}

// workerMain reports whether the program was started as a worker, and if so runs it as
// one.
func workerMain() (was bool) {
	path := os.Getenv(workerBoard)
	if path == "" {
		return false
	}
	logging.Disable() // go-redis logs failures of connections, which it also returns as errors
	if err := work(path, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench: worker:", err)
		os.Exit(1)
	}
	return true
}
