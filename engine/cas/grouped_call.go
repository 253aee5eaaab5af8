package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// callsAtOnce is how many calls of one kind are under way at the same time.
	callsAtOnce = 4
	// callSize is how many elements one call has at most on most stores.
	callSize = 64
)

// groupedCall makes one call of a store out of the requests that come while other calls are
// under way. Alone, a request is sent at once. A request that has waited for as long as a
// call may take fails, so that requests do not pile up while the store does not respond. If the
// store denies a call of several, or one of them has to wait for long, each has a call of its own.
type groupedCall[In, Out any] struct {
	call    func(context.Context, []In) ([]Out, error)
	timeout time.Duration
	size    int // how many elements one call has at most

	mu      sync.Mutex
	waiting []*item[In, Out]
	running int
}

type item[In, Out any] struct {
	in   In
	out  Out
	err  error
	came time.Time
	done chan struct{}

	alone bool // it has a call of its own
	again bool // an earlier call, which was denied, may have had an effect
}

// do returns the result of one request. See item.again.
func (b *groupedCall[In, Out]) do(in In) (out Out, again bool, err error) {
	it := &item[In, Out]{in: in, came: time.Now(), done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, it)
	mine := b.running < callsAtOnce
	if mine {
		b.running++
	}
	b.mu.Unlock()
	if mine {
		b.run(it)
	}
	<-it.done
	return it.out, it.again, it.err
}

// run makes calls until its own request is answered, and passes the rest to a goroutine.
func (b *groupedCall[In, Out]) run(own *item[In, Out]) {
	for b.next() {
		select {
		case <-own.done:
			go func() {
				for b.next() {
				}
			}()
			return
		default:
		}
	}
}

// next makes a call for the requests that wait. It reports whether there are others, and if
// there are none this run has ended.
func (b *groupedCall[In, Out]) next() bool {
	b.mu.Lock()
	n := min(len(b.waiting), b.size)
	if i := slices.IndexFunc(b.waiting[:n], func(it *item[In, Out]) bool { return it.alone }); i >= 0 {
		n = max(i, 1)
	}
	if n == 0 {
		b.running--
		b.mu.Unlock()
		return false
	}
	items := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	items = b.timely(items)
	if len(items) == 0 {
		return true
	}
	ins := make([]In, len(items))
	for i, it := range items {
		ins[i] = it.in
	}
	outs, err := b.call(context.Background(), ins)
	if denied := errors.Is(err, engine.ErrDenied); len(items) > 1 && (denied || errors.Is(err, ErrOneOfMany)) {
		b.separate(items, denied)
		return true
	}
	for i, it := range items {
		if it.err = err; err == nil {
			it.out = outs[i]
		}
		close(it.done)
	}
	return true
}

// separate lets requests wait again, for a call each.
func (b *groupedCall[In, Out]) separate(items []*item[In, Out], denied bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range items {
		it.alone, it.again = true, denied
	}
	b.waiting = slices.Concat(items, b.waiting)
	for ; b.running < callsAtOnce; b.running++ {
		go func() {
			for b.next() {
			}
		}()
	}
}

// timely fails the requests that have waited too long, and returns the others.
func (b *groupedCall[In, Out]) timely(items []*item[In, Out]) []*item[In, Out] {
	return slices.DeleteFunc(items, func(it *item[In, Out]) bool {
		late := time.Since(it.came) > b.timeout
		if late {
			it.err = fmt.Errorf("%w: no response to earlier calls within %v", engine.ErrUnavailable, b.timeout)
			close(it.done)
		}
		return late
	})
}

// readAll is the call of a store that reads; the estimate of the store's clock learns from it.
func (e *Engine) readAll(ctx context.Context, reads []Read) ([]Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	sent := time.Now()
	docs, err := e.store.Read(ctx, reads)
	if err != nil {
		return nil, failure(err)
	}
	for _, d := range docs {
		e.clock.read(d.At, sent)
	}
	return docs, nil
}

// swapAll is the call of a store that changes.
func (e *Engine) swapAll(ctx context.Context, changes []Change) ([]Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	sent := time.Now()
	outcomes, err := e.store.Swap(ctx, changes)
	if err != nil {
		return nil, failure(err)
	}
	for _, o := range outcomes {
		e.clock.read(o.Doc.At, sent)
	}
	return outcomes, nil
}
