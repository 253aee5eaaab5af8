package quorum

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// crews are the goroutines under way, by the client they work for.
type crews struct {
	mu  sync.Mutex
	all map[string]*crew
}

// crew is the goroutines of one client. They are used again: a call of a node needs
// a deep stack, and to grow one costs as much as the round trip.
type crew struct {
	ctx    context.Context // ends when the client has left
	cancel context.CancelFunc
	crews  *crews
	client string
	keeps  bool // goroutines for later calls; nobody leaves for the client ""

	at       int           // calls under way, and debts
	on       []int         // the same by node
	gone     chan struct{} // made by leave, closed when nothing is under way
	idle     []chan task   // the last to come is the first to go: its stack is warm
	unused   int           // so many at the start of idle were not used since the last sweep
	sweeping bool
}

// task is a call of a node.
type task struct {
	w    *crew
	n    *node
	call func(*crew, *node)
}

// sweep is how often idle goroutines are looked for; each lives for one to two.
const sweep = 25 * time.Millisecond

// of returns the crew of a client. The mutex is held.
func (c *crews) of(client string) *crew {
	w := c.all[client]
	if w == nil {
		if c.all == nil {
			c.all = make(map[string]*crew)
		}
		w = &crew{crews: c, client: client, keeps: client != ""}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		c.all[client] = w
	}
	return w
}

// send makes a call of each node, of which so many are needed. On one that is behind
// the others, and silent, the call waits until an earlier one is over: so a node that hangs gathers
// a list, and neither goroutines nor connections.
func (c *crews) send(client string, to []*node, need int, call func(*crew, *node)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.of(client)
	many := ahead(to, need)
	for _, n := range to {
		w.begin(n)
		if n.open >= many && n.lags() {
			n.waiting = append(n.waiting, task{w, n, call})
			continue
		}
		w.start(task{w, n, call})
	}
}

// lead is how many calls a node may be behind.
const lead = 2

// ahead is how many calls a node may have open: twice as many as those that are needed
// have, and some.
func ahead(to []*node, need int) int {
	if len(to) <= need {
		return math.MaxInt
	}
	var few [8]int
	open := few[:0]
	for _, n := range to {
		open = append(open, n.open)
	}
	slices.Sort(open)
	return lead + 2*open[max(0, need-1)]
}

// send makes a call of one node.
func (w *crew) send(n *node, call func(*crew, *node)) {
	w.crews.mu.Lock()
	defer w.crews.mu.Unlock()
	w.begin(n)
	w.start(task{w, n, call})
}

// start makes a call. The mutex is held.
func (w *crew) start(t task) {
	t.n.open++
	last := len(w.idle) - 1
	if last < 0 {
		go w.work(t)
		return
	}
	jobs := w.idle[last]
	w.idle = w.idle[:last]
	w.unused = min(w.unused, last)
	jobs <- t // it has room
}

func (w *crew) work(t task) {
	jobs := make(chan task, 1)
	for more := true; more; {
		t.call(t.w, t.n)
		next, stays := w.park(t, jobs)
		switch {
		case next.call != nil:
			t = next
		case stays:
			t, more = <-jobs
		default:
			return
		}
	}
}

// park notes the end of a call. It returns one that has waited for it, of whatever
// client; or else makes the goroutine idle, or tells it to end.
func (w *crew) park(t task, jobs chan task) (next task, stays bool) {
	w.crews.mu.Lock()
	defer w.crews.mu.Unlock()
	t.w.end(t.n)
	if n := t.n; len(n.waiting) > 0 {
		next, n.waiting[0] = n.waiting[0], task{}
		n.waiting = n.waiting[1:]
		return next, true
	}
	t.n.open--
	if !w.keeps || w.ctx.Err() != nil {
		return next, false
	}
	w.idle = append(w.idle, jobs)
	if !w.sweeping {
		w.sweeping = true
		time.AfterFunc(sweep, w.sweep)
	}
	return next, true
}

// sweep ends the goroutines that were idle since the last one. A timer for each would
// cost every call more than it saves.
func (w *crew) sweep() {
	w.crews.mu.Lock()
	defer w.crews.mu.Unlock()
	w.dismiss(w.unused)
	w.unused = len(w.idle)
	w.sweeping = len(w.idle) > 0
	switch {
	case w.sweeping:
		time.AfterFunc(sweep, w.sweep)
	case w.at == 0 && w.ctx.Err() == nil:
		// It is made again when it is needed. Of a client of another process, whose
		// lease was adopted or broken here, nobody tells that it has left.
		w.crews.forget(w.client, w)
	}
}

// dismiss ends the first idle goroutines. The mutex is held.
func (w *crew) dismiss(n int) {
	for _, jobs := range w.idle[:n] {
		close(jobs)
	}
	w.idle = slices.Delete(w.idle, 0, n)
	w.unused = max(0, w.unused-n)
}

// join counts something that is under way for a client on a node, until done. It
// returns nil if the client has left, or has never made a call.
func (c *crews) join(client string, n *node) *crew {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.all[client]
	if w != nil {
		w.begin(n)
	}
	return w
}

func (w *crew) done(n *node) {
	w.crews.mu.Lock()
	defer w.crews.mu.Unlock()
	w.end(n)
}

// begin and end count. The mutex is held.
func (w *crew) begin(n *node) {
	if len(w.on) <= n.index {
		w.on = append(w.on, make([]int, n.index+1-len(w.on))...)
	}
	w.at++
	w.on[n.index]++
}

func (w *crew) end(n *node) {
	w.at--
	w.on[n.index]--
	if w.at > 0 {
		return
	}
	if w.gone != nil {
		close(w.gone)
		w.gone = nil
	}
	if w.keeps && !w.sweeping && w.ctx.Err() == nil {
		w.sweeping = true
		time.AfterFunc(sweep, w.sweep)
	}
}

// bounded returns a ctx that ends in time, and with the client.
func (w *crew) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.ctx, patience)
}
