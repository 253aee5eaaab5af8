package quorum

import (
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/engine"
)

// localQueues are the waiters of this process, by resource. Only the first of each queue calls
// the nodes and has a turn there. Each of the others is woken when it becomes the first.
type localQueues struct {
	mu        sync.Mutex
	all       map[engine.Resource][]*attemptState
	listeners []*mergedListener
}

// ahead counts the waiters before an attempt, or all if it is not in the queue.
func (q *localQueues) ahead(a *attemptState) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.dropDead(a)
	if at := slices.Index(queue, a); at >= 0 {
		return at
	}
	return len(queue)
}

// dropDead removes the waiters at the front of the queue of an attempt, other than the attempt itself, that have
// not polled for engine.WaiterLife, and returns the rest. Each waiter polls once a second: if it looked at all
// others, thousands would take seconds of CPU time for that. The mutex is held.
func (q *localQueues) dropDead(a *attemptState) []*attemptState {
	queue, dead := q.all[a.resource], 0
	for dead < len(queue) && queue[dead] != a && queue[dead].idleFor() > engine.WaiterLife {
		dead++
	}
	return q.set(a.resource, slices.Delete(queue, 0, dead))
}

// set replaces a queue, and returns it. The mutex is held.
func (q *localQueues) set(res engine.Resource, queue []*attemptState) []*attemptState {
	if q.all[res] = queue; len(queue) == 0 {
		delete(q.all, res)
	}
	return queue
}

// join adds an attempt to the end of its queue, unless the queue has it. It returns the number of
// waiters ahead.
func (q *localQueues) join(a *attemptState) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.all[a.resource]
	at := slices.Index(queue, a)
	if at < 0 {
		at = len(queue)
		q.all[a.resource] = append(queue, a)
	}
	return at
}

// remove takes an attempt out of its queue, and wakes the next one if it was first.
func (q *localQueues) remove(a *attemptState) {
	q.mu.Lock()
	queue := q.all[a.resource]
	first := len(queue) > 0 && queue[0] == a
	q.set(a.resource, slices.DeleteFunc(queue, func(other *attemptState) bool { return other == a }))
	q.dropDead(a)
	q.mu.Unlock()
	if first {
		q.wakeFirst(a.resource)
	}
}

// wakeFirst wakes the first of a queue.
func (q *localQueues) wakeFirst(res engine.Resource) {
	q.mu.Lock()
	queue := q.all[res]
	first := slices.Clone(queue[:min(1, len(queue))])
	q.mu.Unlock()
	q.wake(first)
}

// clear removes the queue of a resource that was marked, and wakes its waiters.
func (q *localQueues) clear(res engine.Resource) {
	q.mu.Lock()
	queue := q.all[res]
	delete(q.all, res)
	q.mu.Unlock()
	q.wake(queue)
}

func (q *localQueues) wake(waiters []*attemptState) {
	if len(waiters) == 0 {
		return
	}
	q.mu.Lock()
	listeners := slices.Clone(q.listeners)
	q.mu.Unlock()
	for _, a := range waiters {
		for _, l := range listeners {
			if l.prefix == a.resource.Prefix && l.client == engine.ClientOf(a.id) {
				l.send(engine.Wakeup{Kind: engine.Resync, ID: a.id})
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
