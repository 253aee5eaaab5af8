package quorum

import (
	"context"
	"sync"
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

// more adds goroutines while another one of the crew is at work.
func (w *crew) more(n int) {
	w.crews.mu.Lock()
	defer w.crews.mu.Unlock()
	w.at += n
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
	c.mu.Lock()
	w := c.all[client]
	if w == nil {
		c.mu.Unlock()
		return
	}
	delete(c.all, client)
	var gone chan struct{}
	if w.at > 0 {
		if w.gone == nil {
			w.gone = make(chan struct{})
		}
		gone = w.gone
	}
	c.mu.Unlock()
	if gone != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
		select {
		case <-gone:
		case <-ctx.Done():
		}
		cancel()
	}
	w.cancel()
	if gone != nil {
		<-gone // calls of nodes end soon after their ctx
	}
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
