package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// insistence bounds how long a node is asked to take something back. A lease ends
	// by its TTL anyway; what matters is that it does not come up later.
	insistence = 30 * time.Second
	// insistent is how many debts are remembered of a node; those above are left to the
	// TTL.
	insistent = 1024
	// instalment is how many debts are paid at a time to a node that answers.
	instalment = 16
)

// debt is what is still to be done on a node: a release, as a rule.
type debt struct {
	w     *crew
	do    func(context.Context, *node) error
	drop  func() // it was not done
	until time.Time
}

// insist repeats a release on one node.
func (e *Engine) insist(n *node, client string, r engine.Release) {
	e.insistOn(n, client, func(ctx context.Context, n *node) error { return n.Release(ctx, r) }, func() {})
}

// insistOn makes a call of one node in the background, until the node has answered,
// the time for it is over, or the client has left. A node that answers is asked at
// once; for one that does not there is a list, and one goroutine that tries. Of a
// client that has left already, only a node that answers is asked, once. It returns
// false if the call is not made; drop is called when it is given up later.
func (e *Engine) insistOn(n *node, client string, do func(context.Context, *node) error, drop func()) bool {
	d := debt{e.crews.join(client, n), do, drop, time.Now().Add(insistence)}
	pay := func(w *crew, n *node) {
		_, err := ask(context.Background(), w, n, func(ctx context.Context, n *node) (struct{}, error) {
			return struct{}{}, do(ctx, n)
		})
		switch {
		case unavailable(err):
			if d.w == nil || !n.owe(d) {
				drop()
			}
		case d.w != nil:
			d.w.done(n)
		}
	}
	switch well := n.fine(time.Now()); {
	case well && d.w != nil:
		d.w.send(n, pay)
	case well:
		e.crews.send("", []*node{n}, 1, pay)
	default:
		return d.w != nil && n.owe(d)
	}
	return true
}

// owe puts a debt on the list, unless that is full.
func (n *node) owe(d debt) bool {
	n.mu.Lock()
	full := len(n.debts) >= insistent
	if !full {
		n.debts = append(n.debts, d)
		if !n.paying {
			n.paying = true
			go n.pay()
		}
	}
	n.mu.Unlock()
	if full {
		d.w.done(n)
	}
	return !full
}

// pay works through the list: with one call at a time while the node does not answer,
// and in instalments when it does.
func (n *node) pay() {
	pause, some := firstPause, 1
	for {
		due := n.due(some)
		if len(due) == 0 {
			return
		}
		if n.settle(due) {
			pause, some = firstPause, min(2*some, instalment)
			continue
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-n.back:
		}
		timer.Stop()
		pause, some = min(2*pause, longestPause), 1
	}
}

// due takes the first debts from the list. With none left the list is closed.
func (n *node) due(most int) []debt {
	n.mu.Lock()
	var dead []debt
	now := time.Now()
	n.debts = slices.DeleteFunc(n.debts, func(d debt) bool {
		over := d.w.ctx.Err() != nil || now.After(d.until)
		if over {
			dead = append(dead, d)
		}
		return over
	})
	due := slices.Clone(n.debts[:min(most, len(n.debts))])
	n.debts = slices.Delete(n.debts, 0, len(due))
	n.paying = len(due) > 0
	n.mu.Unlock()
	for _, d := range dead {
		d.drop()
		d.w.done(n)
	}
	return due
}

// settle pays debts, and puts those back that the node did not take. It tells whether
// all were paid.
func (n *node) settle(due []debt) bool {
	unpaid := make([]bool, len(due))
	var all sync.WaitGroup
	for i, d := range due {
		pay := func() {
			ctx, cancel := d.w.bounded()
			defer cancel()
			s := n.begin()
			err := d.do(ctx, n)
			n.end(s, err)
			unpaid[i] = unavailable(err)
		}
		if len(due) == 1 {
			pay()
		} else {
			all.Go(pay)
		}
	}
	all.Wait()
	var again []debt
	for i, d := range due {
		if unpaid[i] {
			again = append(again, d)
			continue
		}
		d.w.done(n)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.debts = append(again, n.debts...)
	return len(again) == 0
}

// wake makes who pays look at the list.
func (n *node) wake() {
	select {
	case n.back <- struct{}{}:
	default:
	}
}

// rest waits; it returns false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
