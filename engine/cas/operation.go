package cas

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// operation is one call of the queue on a resource. apply may run several times, on different
// documents.
type operation struct {
	id       string          // of the party
	line     string          // the ID by which it waits, if it may
	client   *engine.Client  // of the party; nil if the operation adds none
	broken   string          // the ID that an operator breaks
	reason   string          // of the break
	unmarks  bool            // an operator breaks the mark
	joins    bool            // it acquires, so it depends on whether the holders are dead
	leaves   bool            // it is of a waiter that does not wait any more
	witness  *witness        // to note in the document
	urgent   bool            // others may wait for it, so it is not put off after a conflict
	request  *engine.Request // of one that can be proposed to another process; see proposal
	proposed *proposal       // the request of another process, or nil
	apply    func(q *queue.Queue, at instant) queue.Answer

	again bool // it may have had its effect before

	writer *writer // of its resource

	slots <-chan struct{} // the operation takes an element out when it is done; nil: none

	ctx  context.Context
	sent time.Time
	done chan struct{} // closed when the fields below are set
	operationResult
}

type operationResult struct {
	answer queue.Answer
	holder engine.Client // of answer.Holder
	left   []sighted     // leases that need a witness; see writer.left
	instant
	err error
}

// do applies an operation and returns its error.
func (e *Engine) do(ctx context.Context, res engine.Resource, op *operation) error {
	e.start(ctx, res, op)
	return op.wait(ctx)
}

// start passes an operation to the writer of its resource.
func (e *Engine) start(ctx context.Context, res engine.Resource, op *operation) {
	op.begin(ctx)
	if op.err = ended(ctx); op.err != nil {
		op.finish()
		return
	}
	if e.writers.add(Key{Space: Resources, Prefix: res.Prefix, Name: res.Name}, op) {
		go e.write(op.writer)
	}
}

func (op *operation) begin(ctx context.Context) {
	op.ctx, op.sent, op.done = ctx, time.Now(), make(chan struct{})
}

// wait returns the error of an operation when it is done, or when ctx ends.
func (op *operation) wait(ctx context.Context) error {
	select {
	case <-op.done:
	case <-ctx.Done():
		select {
		case <-op.done:
		default:
			// The operation may still take effect. The caller sees no other field.
			if trouble := op.writer.trouble.Load(); trouble != nil {
				return fmt.Errorf("%w; the store: %w", ended(ctx), *trouble)
			}
			return ended(ctx)
		}
	}
	if op.err != nil {
		return op.err
	}
	switch op.answer.Status {
	case queue.Granted, queue.Queued, queue.Busy, queue.Marked, queue.Outbid:
		return nil // an answer of Acquire
	}
	return translate.Failure(op.answer)
}

// shorten makes the answer say what is left of the lease, as the store's clock shows at the
// end of the call, and no more than the holder was promised.
func (op *operation) shorten(at queue.Time) {
	if a := &op.answer; a.Status == queue.Granted {
		a.TTL = max(0, min(a.TTL-op.pad, op.now+a.TTL-at))
	}
}

// waiting reports whether the party is in the line now.
func (op *operation) waiting() bool {
	return op.answer.Status == queue.Queued || op.answer.Status == queue.Busy && op.line != ""
}

// over reports whether the party does not look at the resource any more, although others may hold it.
func (op *operation) over() bool {
	switch op.answer.Status {
	case queue.Mismatch:
		return op.joins
	case queue.Busy:
		return op.line == ""
	}
	return op.leaves
}

// amend corrects the answer to a break that had an effect before its outcome was lost.
func (op *operation) amend() {
	if !op.again || op.answer.Status != queue.NotHeld {
		return
	}
	if op.unmarks || op.broken != "" && op.answer.Cause == queue.Broken {
		op.answer.Status = queue.Done
	}
}

func (op *operation) fail(err error) {
	op.err = err
	op.finish()
}

// finish wakes the caller up.
func (op *operation) finish() {
	close(op.done)
	if op.slots != nil {
		<-op.slots
	}
}
