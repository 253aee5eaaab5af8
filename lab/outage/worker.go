package outage

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/lab/process"
)

// workerEnv has the settings of a worker, for the process that is one.
const workerEnv = "HOLDFAST_LAB_OUTAGE"

const (
	callers = 3 // of each process
	ttl     = 600 * time.Millisecond
)

// worker is a process whose callers lock one resource in turn.
type worker struct {
	Process  int
	Store    string // address
	Fallback holdfast.Fallback

	mu  sync.Mutex
	out *json.Encoder
}

// turn is one lease of a caller. Its times are the wall clock's, in nanoseconds: all processes are on one machine.
type turn struct {
	Process int
	Call    int64 // Lock was called
	Enter   int64 // Lock has returned
	Leave   int64 // before Release, or when the loss was noticed
	Local   bool  // granted without the store
	Token   uint64
}

// ServeWorker is the whole of a process that run has started as a worker. It returns false at once in any other process.
func ServeWorker() bool {
	w := worker{out: json.NewEncoder(os.Stdout)}
	return process.ServeWorker(workerEnv, &w, w.serve)
}

// serve locks until ctx ends.
func (w *worker) serve(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: w.Store})
	defer rdb.Close()
	c, err := holdfast.New(goredis.New(rdb), holdfast.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	m := c.Mutex("stock", holdfast.WithTTL(ttl), holdfast.WithFallback(w.Fallback))
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { errs[i] = w.call(ctx, m) })
	}
	all.Wait()
	_ = c.Close() // an error says that the store did not confirm a release: it may be down
	return errors.Join(errs...)
}

// call takes turns until ctx ends.
func (w *worker) call(ctx context.Context, m *holdfast.Mutex) error {
	for ctx.Err() == nil {
		t := turn{Process: w.Process, Call: time.Now().UnixNano()}
		l, err := m.Lock(ctx)
		if err != nil {
			continue // ctx has ended
		}
		t.Enter, t.Local, t.Token = time.Now().UnixNano(), l.Fallback() != holdfast.FailClosed, l.Token()
		select {
		case <-time.After(time.Millisecond + rand.N(7*time.Millisecond)):
		case <-l.Context().Done():
		}
		t.Leave = time.Now().UnixNano()
		_ = l.Release(ctx) // it is retried, or the lease was lost
		if err := w.report(t); err != nil {
			return err
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
	return nil
}

func (w *worker) report(t turn) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(t)
}
