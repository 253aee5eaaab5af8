package holdfast

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// rooms keep the leases WithFallback(LocalOnly) of one client apart, whether the
// store granted them or not: what it granted enters a room as well, and finds it
// empty unless a lease from the time without the store is still held. The zero
// rooms is ready.
type rooms struct {
	mu   sync.Mutex
	open map[string]*room // by resource name; only those in use
}

// room is a resource inside a client.
type room struct {
	name     string
	kind     engine.Kind
	capacity int
	used     int
	inside   []*place
	waiters  list.List // of *place
}

// place is a lease's part of a room, or a wait for it. A nil place is none.
type place struct {
	rooms  *rooms
	room   *room
	lk     *locker
	holder string // ID
	weight int
	since  time.Time
	admit  chan struct{} // closed when it is inside; nil if it was at once
	state  placeState
	queued *list.Element
}

// placeState only moves forward.
type placeState uint8

const (
	placeWaiting placeState = iota
	placeInside
	placeLeft
)

// enter waits until the place is inside, or gives it up. If it is for a lease of
// the store, the loss of that ends the wait without an error.
func (p *place) enter(ctx context.Context, granted *Lease) (err error) {
	if !p.waited() {
		return nil
	}
	var lost <-chan struct{}
	if granted != nil {
		lost = granted.Done()
	}
	select {
	case <-p.admit:
		return nil
	case <-lost:
		return nil
	case <-ctx.Done():
		err = &waitError{p.lk.name, context.Cause(ctx), nil}
	case <-p.lk.c.life.Done():
		err = &waitError{p.lk.name, ErrClosed, nil}
	}
	p.leave()
	return err
}

// waited tells whether the place was not to be had at once.
func (p *place) waited() bool { return p.admit != nil }

// join returns a place in the room of the resource. With queue it may have to wait
// for that, see enter: first come, first served, and nobody passes the front.
func (rs *rooms) join(lk *locker, holder string, weight int, queue bool) (*place, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.open[lk.name]
	if r == nil {
		r = &room{name: lk.name, kind: lk.kind, capacity: lk.capacity}
		if rs.open == nil {
			rs.open = make(map[string]*room)
		}
		rs.open[lk.name] = r
	}
	if r.kind != lk.kind || r.capacity != lk.capacity {
		return nil, opError("acquire", lk.name, ErrMismatch)
	}
	p := &place{rooms: rs, room: r, lk: lk, holder: holder, weight: weight, since: time.Now()}
	switch {
	case r.waiters.Len() == 0 && r.used+weight <= r.capacity:
		r.let(p)
	case queue:
		p.admit = make(chan struct{})
		p.queued = r.waiters.PushBack(p)
	default:
		return nil, r.busy()
	}
	return p, nil
}

func (r *room) let(p *place) {
	p.state = placeInside
	r.used += p.weight
	r.inside = append(r.inside, p)
	if p.admit != nil {
		close(p.admit)
	}
}

// advance admits those at the front that fit. Nobody behind them is looked at.
func (r *room) advance() {
	for front := r.waiters.Front(); front != nil; front = r.waiters.Front() {
		p := front.Value.(*place)
		if r.used+p.weight > r.capacity {
			return
		}
		r.waiters.Remove(front)
		r.let(p)
	}
}

// busy tells who is in the way. At least one is inside: the store's lease holder
// or one who holds without it.
func (r *room) busy() error {
	e := &HeldError{Resource: r.name, Waiters: r.waiters.Len()}
	if len(r.inside) > 0 {
		p := r.inside[0]
		info := &p.lk.c.info
		e.HolderID, e.Name, e.Host, e.PID = p.holder, info.Name, info.Host, info.PID
		e.Reason, e.Since, e.TTL = p.lk.opts.reason, p.since, p.lk.opts.ttl
	}
	return e
}

// leave frees the place, or gives up the wait, once.
func (p *place) leave() {
	if p == nil {
		return
	}
	p.rooms.mu.Lock()
	defer p.rooms.mu.Unlock()
	r := p.room
	switch p.state {
	case placeInside:
		r.used -= p.weight
		r.inside = slices.DeleteFunc(r.inside, func(o *place) bool { return o == p })
	case placeWaiting:
		r.waiters.Remove(p.queued)
	}
	p.state = placeLeft
	r.advance()
	if len(r.inside)+r.waiters.Len() == 0 && p.rooms.open[r.name] == r {
		delete(p.rooms.open, r.name)
	}
}

// lower makes the place smaller.
func (p *place) lower(weight int) {
	if p == nil {
		return
	}
	p.rooms.mu.Lock()
	defer p.rooms.mu.Unlock()
	if p.state == placeInside && weight < p.weight {
		p.room.used -= p.weight - weight
		p.weight = weight
		p.room.advance()
	}
}
