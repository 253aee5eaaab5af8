package holdfast

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// localLocks are the locks of one client for WithFallback(LocalOnly). Each lease takes one,
// whether the store granted it or not, so that a lease granted without the store and one
// that the store grants later exclude each other. The zero value is ready.
type localLocks struct {
	mu   sync.Mutex
	open map[string]*localLock // by resource name; only those in use
}

// localLock is the lock of one resource: first come, first served.
type localLock struct {
	name     string
	kind     engine.Kind
	capacity int
	used     int
	silent   time.Time // when a request for the resource was without an answer last
	inside   list.List // of *localHold; the oldest one first
	waiters  list.List // of *localHold
}

// localHold is the weight that a lease takes of a localLock, or a wait for it. A nil
// *localHold holds nothing.
type localHold struct {
	locks  *localLocks
	lock   *localLock
	lk     *acquirer
	holder string // ID
	weight int
	since  time.Time
	ahead  int           // waiters when it was requested
	admit  chan struct{} // closed when it is granted; nil if it was granted at once
	state  localState
	place  *list.Element // of inside or waiters
}

// localState only moves forward.
type localState uint8

const (
	localWaiting localState = iota
	localHeld
	localReleased
)

// wait waits until the hold is granted; if ctx or the client ends before, it withdraws it.
// If it is for a lease of the store, the loss of that lease ends the wait without an error.
func (p *localHold) wait(ctx context.Context, granted *Lease) (err error) {
	if !p.waited() || p.granted() {
		return nil
	}
	var q queueWait
	returned := false
	defer func() {
		if err != nil || !returned { // a hook panics
			p.release()
		}
		q.end(ctx, p.lk, p.weight, err)
	}()
	q.begin(ctx, p.lk, p.weight, WaitFallback, p.ahead)
	err = p.await(ctx, granted)
	returned = true
	return err
}

// await waits for wait.
func (p *localHold) await(ctx context.Context, granted *Lease) error {
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
	case <-p.lk.c.life.Done():
	}
	return p.lk.c.waitOver(ctx, p.lk.name, nil)
}

// noteSilence records that a request for the resource was without an answer.
func (p *localHold) noteSilence() {
	p.locks.mu.Lock()
	defer p.locks.mu.Unlock()
	p.lock.silent = time.Now()
}

// mayAnswer reports whether the store may answer for the resource again: it has not been tried for breakerPause.
func (p *localHold) mayAnswer() bool {
	p.locks.mu.Lock()
	defer p.locks.mu.Unlock()
	return time.Since(p.lock.silent) >= breakerPause
}

// waited reports whether the hold was not granted at once.
func (p *localHold) waited() bool { return p.admit != nil }

// granted reports whether the hold was granted.
func (p *localHold) granted() bool {
	p.locks.mu.Lock()
	defer p.locks.mu.Unlock()
	return p.state == localHeld
}

// join requests a hold on the lock of the resource. With queue the hold may be granted
// later, see wait; no request passes the front of the queue.
func (rs *localLocks) join(lk *acquirer, holder string, weight int, queue bool) (*localHold, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.open[lk.name]
	if r == nil {
		r = &localLock{name: lk.name, kind: lk.kind, capacity: lk.capacity}
		if rs.open == nil {
			rs.open = make(map[string]*localLock)
		}
		rs.open[lk.name] = r
	}
	if r.kind != lk.kind || r.capacity != lk.capacity {
		return nil, opError("acquire", lk.name, &mismatch{inUse: usage{r.kind, r.capacity}, wanted: lk.usage()})
	}
	p := &localHold{locks: rs, lock: r, lk: lk, holder: holder, weight: weight, since: time.Now(), ahead: r.waiters.Len()}
	switch {
	case r.waiters.Len() == 0 && r.used+weight <= r.capacity:
		r.grant(p)
	case queue:
		p.admit = make(chan struct{})
		p.place = r.waiters.PushBack(p)
	default:
		return nil, r.busy()
	}
	return p, nil
}

func (r *localLock) grant(p *localHold) {
	p.state = localHeld
	r.used += p.weight
	p.place = r.inside.PushBack(p)
	if p.admit != nil {
		close(p.admit)
	}
}

// advance grants from the front of the queue as long as the first waiter fits. If it does
// not fit, the waiters behind it are not tried.
func (r *localLock) advance() {
	for front := r.waiters.Front(); front != nil; front = r.waiters.Front() {
		p := front.Value.(*localHold)
		if r.used+p.weight > r.capacity {
			return
		}
		r.waiters.Remove(front)
		r.grant(p)
	}
}

// busy returns the error that names the oldest holder.
func (r *localLock) busy() error {
	e := &HeldError{Resource: r.name, Waiters: r.waiters.Len()}
	if oldest := r.inside.Front(); oldest != nil {
		p := oldest.Value.(*localHold)
		info := &p.lk.c.info
		e.HolderID, e.Name, e.Host, e.PID = p.holder, info.Name, info.Host, info.PID
		e.Reason, e.Since, e.TTL = p.lk.opts.reason, p.since, p.lk.opts.ttl
	}
	return e
}

// release releases the hold, or withdraws the wait, once.
func (p *localHold) release() {
	if p == nil {
		return
	}
	p.locks.mu.Lock()
	defer p.locks.mu.Unlock()
	r := p.lock
	switch p.state {
	case localHeld:
		r.used -= p.weight
		r.inside.Remove(p.place)
	case localWaiting:
		r.waiters.Remove(p.place)
	}
	p.state = localReleased
	r.advance()
	if r.inside.Len()+r.waiters.Len() == 0 && p.locks.open[r.name] == r {
		delete(p.locks.open, r.name)
	}
}

// demote lowers the weight of the hold.
func (p *localHold) demote(weight int) {
	if p == nil {
		return
	}
	p.locks.mu.Lock()
	defer p.locks.mu.Unlock()
	if p.state == localHeld && weight < p.weight {
		p.lock.used -= p.weight - weight
		p.weight = weight
		p.lock.advance()
	}
}
