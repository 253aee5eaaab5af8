package cas

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// polls are the latest polls of the waiters of this process.
type polls struct {
	mu      sync.Mutex
	latest  map[string]poll // by the ID that waits
	asked   map[string]int  // how many polls are under way
	sweepAt int
}

type poll struct {
	key  Key
	sent time.Time // the latest, which may have no answer yet
	// shown is what the store's clock showed when it was answered; 0 without one.
	shown queue.Time
}

// pollKeep is for how long a poll is remembered after which no other came.
const pollKeep = time.Minute

// begin notes that a poll is sent, and end that its caller has the answer, or none.
func (p *polls) begin(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[id]++
	if is, ok := p.latest[id]; ok {
		is.sent = time.Now()
		p.latest[id] = is
	}
}

func (p *polls) end(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[id]--; p.asked[id] == 0 {
		delete(p.asked, id)
	}
}

// note takes the answer to an operation, before its caller does: a wake-up may come at once.
func (p *polls) note(op *operation, key Key, shown queue.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !op.waiting() {
		delete(p.latest, op.id)
		delete(p.latest, op.line)
		return
	}
	sent := p.latest[op.line].sent
	if sent.Before(op.sent) {
		sent = op.sent
	}
	p.latest[op.line] = poll{key: key, sent: sent, shown: shown}
	if len(p.latest) < p.sweepAt {
		return
	}
	for id, other := range p.latest {
		if time.Since(other.sent) > pollKeep {
			delete(p.latest, id)
		}
	}
	p.sweepAt = 2*len(p.latest) + 64
}

// shown returns what the store's clock showed when the latest poll of a waiter was answered. It is
// not known while one is under way: the store may have answered that one already, before the grant.
func (p *polls) shown(id string) (queue.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.latest[id]
	return is.shown, ok && p.asked[id] == 0
}

// key returns the resource for which an ID waited when it last polled.
func (p *polls) key(id string) (Key, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.latest[id]
	return is.key, ok
}

// over returns the waiters of a client that had not polled for WaiterLife at a time.
func (p *polls) over(client Address, at time.Time) map[string]Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := make(map[string]Key)
	for id, is := range p.latest {
		if is.key.Prefix == client.Prefix && engine.ClientOf(id) == client.Client && at.Sub(is.sent) > engine.WaiterLife {
			over[id] = is.key
		}
	}
	return over
}

// dismiss takes waiters of a client out of the line that had not polled for WaiterLife at its latest
// beat: beats, which are of all its waiters, make them look alive to others. A poll without an answer counts:
// the document may be locked, while the store responds to the beats.
func (e *Engine) dismiss(client Address, beat time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	var ops []*operation
	for id, key := range e.polls.over(client, beat) {
		withdraw := e.proposing.has(id)
		op := &operation{id: id, urgent: true, apply: func(q *queue.Queue, at instant) queue.Answer {
			if !q.Waits(id) { // it may hold a lease by now
				return queue.Answer{Status: queue.NotHeld, Cause: queue.Released}
			}
			return q.Release(id, 0, withdraw, 0, at.now)
		}}
		e.start(ctx, engine.Resource{Prefix: key.Prefix, Name: key.Name}, op)
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		cancel()
		return
	}
	go func() {
		defer cancel()
		for _, op := range ops {
			<-op.done
		}
	}()
}
