package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// localQueues are the waiters of this process, by resource. Only the first of each queue calls
// the nodes and has a turn there. Each of the others is woken when it becomes the first.
type localQueues struct {
	mu        sync.Mutex
	all       map[engine.Resource][]*localWaiter
	listeners []*mergedListener
}

type localWaiter struct {
	id     string
	polled time.Time
}

func indexOf(queue []*localWaiter, id string) int {
	return slices.IndexFunc(queue, func(w *localWaiter) bool { return w.id == id })
}

// ahead counts the waiters before a holder ID, or all if the ID is not in the queue. It removes
// those that have not polled for engine.WaiterLife.
func (q *localQueues) ahead(res engine.Resource, id string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	queue := slices.DeleteFunc(q.all[res], func(w *localWaiter) bool {
		return w.id != id && now.Sub(w.polled) > engine.WaiterLife
	})
	q.set(res, queue)
	at := indexOf(queue, id)
	if at < 0 {
		return len(queue)
	}
	queue[at].polled = now
	return at
}

// set replaces a queue. The mutex is held.
func (q *localQueues) set(res engine.Resource, queue []*localWaiter) {
	if len(queue) > 0 {
		q.all[res] = queue
	} else {
		delete(q.all, res)
	}
}

// join adds a holder ID to the end of a queue, unless the queue has it. It returns the number of
// waiters ahead.
func (q *localQueues) join(res engine.Resource, id string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.all[res]
	if at := indexOf(queue, id); at >= 0 {
		return at
	}
	q.set(res, append(queue, &localWaiter{id: id, polled: time.Now()}))
	return len(queue)
}

// remove takes a holder ID out of a queue, and wakes the next one if it was first.
func (q *localQueues) remove(res engine.Resource, id string) {
	q.mu.Lock()
	at := indexOf(q.all[res], id)
	if at >= 0 {
		q.set(res, slices.Delete(q.all[res], at, at+1))
	}
	q.mu.Unlock()
	if at == 0 {
		q.wakeFirst(res)
	}
}

// wakeFirst wakes the first of a queue.
func (q *localQueues) wakeFirst(res engine.Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.all[res]
	q.wake(res, queue[:min(1, len(queue))])
}

// clear removes the queue of a resource that was marked, and wakes its waiters.
func (q *localQueues) clear(res engine.Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.all[res]
	delete(q.all, res)
	q.wake(res, queue)
}

// wake wakes some waiters. The mutex is held, but not while wake-ups are delivered.
func (q *localQueues) wake(res engine.Resource, waiters []*localWaiter) {
	if len(waiters) == 0 {
		return
	}
	listeners := slices.Clone(q.listeners)
	waiters = slices.Clone(waiters)
	q.mu.Unlock()
	defer q.mu.Lock()
	for _, w := range waiters {
		for _, l := range listeners {
			if l.prefix == res.Prefix && l.client == engine.ClientOf(w.id) {
				l.send(engine.Wakeup{Kind: engine.Resync, ID: w.id})
			}
		}
	}
}

func (q *localQueues) addListener(l *mergedListener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listeners = append(q.listeners, l)
}

func (q *localQueues) removeListener(l *mergedListener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listeners = slices.DeleteFunc(q.listeners, func(other *mergedListener) bool { return other == l })
}
