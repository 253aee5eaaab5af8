// Package outage plays outages of the store under locks that fail closed, fail open, and exclude only inside a process.
// The Redis is killed and restarted with its data, or stopped, for times below and above FallbackTimeout, while the callers
// of several processes take turns. All turns are recorded and judged; see judge.
package outage

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/process"
)

// Plan is the size of a run.
type Plan struct {
	Outages int
	Seed    uint64
}

const (
	processes = 3
	longest   = 3500 * time.Millisecond // an outage
	between   = 4 * time.Second         // two outages; above settles and returns
)

// history is what a run has recorded.
type history struct {
	turns   []turn
	outages []down
	stalls  *redistest.Stalls
}

func (h history) judge(f holdfast.Fallback) Result {
	return judge(h.turns, h.outages, processes, f, h.stalls.Between)
}

// run plays the outages under locks with a fallback.
func run(t *testing.T, plan Plan, fallback holdfast.Fallback) history {
	h := history{stalls: redistest.WatchStalls(t)}
	random := rand.New(rand.NewPCG(plan.Seed, uint64(fallback)))
	store := redistest.Start(t, redistest.WithAppendOnly())
	collected, errs := make([][]turn, processes), make([]error, processes)
	var readers sync.WaitGroup
	var commands []*exec.Cmd
	var inputs []io.Closer
	for p := range processes {
		cmd, in, out, err := process.StartWorker(workerEnv, &worker{Process: p, Store: store.Addr(), Fallback: fallback})
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() { collected[p], errs[p] = readTurns(out) })
		commands, inputs = append(commands, cmd), append(inputs, in)
	}
	for i := range plan.Outages {
		time.Sleep(between)
		lasts := longest // the first, so that each run has one above FallbackTimeout
		if i > 0 {
			lasts = time.Duration(random.Int64N(int64(longest)))
		}
		d := down{from: time.Now()}
		if random.IntN(2) == 0 {
			store.Kill()
			time.Sleep(lasts)
			d.started = time.Now()
			store.Restart()
		} else {
			store.Pause()
			time.Sleep(lasts)
			d.started = time.Now()
			store.Resume()
		}
		d.to = time.Now()
		h.outages = append(h.outages, d)
	}
	time.Sleep(between)
	for _, in := range inputs {
		in.Close()
	}
	readers.Wait()
	for p, cmd := range commands {
		if err := errors.Join(errs[p], cmd.Wait()); err != nil {
			t.Errorf("process %d: %v", p, err)
		}
		h.turns = append(h.turns, collected[p]...)
	}
	return h
}

func readTurns(from io.Reader) (all []turn, err error) {
	in := json.NewDecoder(from)
	for {
		var t turn
		switch err := in.Decode(&t); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, t)
	}
}
