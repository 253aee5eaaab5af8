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
	// callSize is how many elements one call has at most.
	callSize = 64
	// lockedAtOnce is how many calls for documents that were found locked are under way beside them.
	lockedAtOnce = 1
	// parts is into how many calls a call is separated.
	parts = 8
)

// errLocked is the error of a change whose document stays locked.
var errLocked = errors.New("somebody else has locked the document")

// groupedCall makes one call of a store out of the requests that come while other calls are
// under way. Alone, a request is sent at once. A request that has waited for as long as a
// call may take fails, so that requests do not pile up while the store does not respond.
//
// A request whose document is locked is tried again in a lane of its own, so that it does not delay the others. A call of
// several that fails because of one of them is separated into smaller calls.
type groupedCall[In, Out any] struct {
	call    func(context.Context, []In) ([]Out, error)
	refused func(Out) bool // reports whether the document was locked; nil: none can be
	timeout time.Duration

	mu           sync.Mutex
	main, locked lane[In, Out]
}

// lane is the requests that wait, in their order, and the calls that are made of them.
type lane[In, Out any] struct {
	waiting []*item[In, Out]
	running int // calls under way
	atOnce  int // how many there are at most
}

type item[In, Out any] struct {
	in   In
	out  Out
	err  error
	came time.Time
	done chan struct{}

	most   int  // how many elements its call has at most
	again  bool // an earlier call, which was denied, may have had an effect
	locked bool // its document is locked, or was
}

func newGroupedCall[In, Out any](call func(context.Context, []In) ([]Out, error), timeout time.Duration) *groupedCall[In, Out] {
	b := &groupedCall[In, Out]{call: call, timeout: timeout}
	b.main.atOnce, b.locked.atOnce = callsAtOnce, lockedAtOnce
	return b
}

// do returns the result of one request. See item.again. locked: its document was locked the last time.
func (b *groupedCall[In, Out]) do(in In, locked bool) (out Out, again bool, err error) {
	it := &item[In, Out]{in: in, came: time.Now(), done: make(chan struct{}), most: callSize, locked: locked}
	l := &b.main
	if locked {
		l = &b.locked
	}
	b.mu.Lock()
	l.waiting = append(l.waiting, it)
	mine := l.running < l.atOnce
	if mine {
		l.running++
	}
	b.mu.Unlock()
	if mine {
		b.begin(l, it)
	}
	<-it.done
	return it.out, it.again, it.err
}

// begin makes the call that has the caller's own request. All other calls are made by a goroutine: a caller does not wait
// for them.
func (b *groupedCall[In, Out]) begin(l *lane[In, Out], own *item[In, Out]) {
	items := b.take(l)
	if slices.Contains(items, own) {
		b.make(l, items)
		items = b.take(l)
	}
	if len(items) > 0 {
		go b.run(l, items)
	}
}

// run makes calls until no request waits.
func (b *groupedCall[In, Out]) run(l *lane[In, Out], items []*item[In, Out]) {
	for len(items) > 0 {
		b.make(l, items)
		items = b.take(l)
	}
}

// take returns the requests of the next call, and fails those that have waited too long. If there are none, the run has ended.
func (b *groupedCall[In, Out]) take(l *lane[In, Out]) []*item[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(l.waiting) > 0 {
		n, most := 1, l.waiting[0].most
		for n < min(len(l.waiting), most) && l.waiting[n].most == most {
			n++
		}
		items := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		if items = b.timely(items); len(items) > 0 {
			return items
		}
	}
	l.waiting = nil
	l.running--
	return nil
}

// make makes a call.
func (b *groupedCall[In, Out]) make(l *lane[In, Out], items []*item[In, Out]) {
	ins := make([]In, len(items))
	for i, it := range items {
		ins[i] = it.in
	}
	outs, err := b.call(context.Background(), ins)
	if len(items) > 1 && errors.Is(err, ErrOneOfMany) {
		b.separate(l, items)
		return
	}
	for i, it := range items {
		if it.err = err; err == nil {
			it.out = outs[i]
		}
		it.locked = err == nil && b.refused != nil && b.refused(it.out)
		if !it.locked {
			close(it.done)
		}
	}
	items = slices.DeleteFunc(items, func(it *item[In, Out]) bool { return !it.locked })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.locked.waiting = append(b.locked.waiting, b.timely(items)...)
	b.start(&b.locked)
}

// separate lets requests wait again, ahead of others, for smaller calls.
func (b *groupedCall[In, Out]) separate(l *lane[In, Out], items []*item[In, Out]) {
	for _, it := range items {
		it.most, it.again = (len(items)+parts-1)/parts, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.waiting = slices.Concat(items, l.waiting)
	b.start(l)
}

// start makes calls for the requests that wait, as many at once as a lane has. The mutex is held.
func (b *groupedCall[In, Out]) start(l *lane[In, Out]) {
	for n := min(len(l.waiting), l.atOnce-l.running); n > 0; n-- { // some may find none
		l.running++
		go func() { b.run(l, b.take(l)) }()
	}
}

// timely fails the requests that have waited too long, and returns the others.
func (b *groupedCall[In, Out]) timely(items []*item[In, Out]) []*item[In, Out] {
	return slices.DeleteFunc(items, func(it *item[In, Out]) bool {
		late := time.Since(it.came) > b.timeout
		if late {
			it.err = fmt.Errorf("%w: no response to earlier calls within %v", engine.ErrUnavailable, b.timeout)
			if it.locked {
				it.err = fmt.Errorf("%w: %w for %v", engine.ErrUnavailable, errLocked, b.timeout)
			}
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
		if !o.Locked {
			e.clock.read(o.Doc.At, sent)
		}
	}
	return outcomes, nil
}
