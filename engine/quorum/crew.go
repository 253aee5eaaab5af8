package quorum

import (
	"context"
	"sync"
	"time"
)

// crews are the goroutines under way, by the client they work for.
type crews struct {
	mu  sync.Mutex
	all map[string]*crew
}

// crew is the goroutines of one client.
type crew struct {
	ctx    context.Context // ends when the client has left
	cancel context.CancelFunc
	crews  *crews
	at     int           // work
	gone   chan struct{} // made by leave, closed when nobody is at work
}

// join adds goroutines to a client's crew.
func (c *crews) join(client string, n int) *crew {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.all[client]
	if w == nil {
		if c.all == nil {
			c.all = make(map[string]*crew)
		}
		w = &crew{crews: c}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		c.all[client] = w
	}
	w.at += n
	return w
}

func (w *crew) done() {
	w.crews.mu.Lock()
	defer w.crews.mu.Unlock()
	w.at--
	if w.at == 0 && w.gone != nil {
		close(w.gone)
		w.gone = nil
	}
}

// leave waits for a client's crew, ends it when it takes too long, and forgets it.
func (c *crews) leave(client string) {
	patient := time.NewTimer(leavePatience)
	defer patient.Stop()
	for {
		w, gone := c.idle(client)
		if gone == nil {
			return
		}
		select {
		case <-gone:
		case <-patient.C:
			w.cancel() // calls of nodes end soon after their ctx
			<-gone
		}
	}
}

// idle forgets the crew of a client if nobody is at work; else it returns what is
// closed when that is so.
func (c *crews) idle(client string) (*crew, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.all[client]
	if w == nil {
		return nil, nil
	}
	if w.at == 0 {
		w.cancel()
		delete(c.all, client)
		return nil, nil
	}
	if w.gone == nil {
		w.gone = make(chan struct{})
	}
	return w, w.gone
}

// context returns one that does not end with the caller's but in time, and with the
// client.
func (w *crew) context(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	stop := context.AfterFunc(w.ctx, cancel)
	return own, func() {
		stop()
		cancel()
	}
}
