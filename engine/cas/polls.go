package cas

import (
	"sync"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// polls are what the store's clock showed when the latest poll of each waiter was answered.
type polls struct {
	mu       sync.Mutex
	answered map[string]queue.Time // by holder ID
	sweepAt  int
}

// note takes the answer to an operation before its caller does: a wake-up may come at once.
func (p *polls) note(op *operation, at queue.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op.answer.Status != queue.Queued {
		delete(p.answered, op.id)
		return
	}
	p.answered[op.id] = at
	if len(p.answered) < p.sweepAt {
		return
	}
	for other, t := range p.answered { // those that have lost their places
		if t < at-2*translate.Micros(engine.WaiterLife) {
			delete(p.answered, other)
		}
	}
	p.sweepAt = 2*len(p.answered) + 64
}

func (p *polls) at(id string) (queue.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.answered[id]
	return at, ok
}
