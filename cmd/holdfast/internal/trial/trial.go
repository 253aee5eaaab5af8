// Package trial does once what Holdfast does, with resources of random names, to find out whether a store lets
// it, and how long it takes. What it makes is not used any more when it returns, and expires.
package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// ttl is that of the leases: more than a trial takes on a slow machine.
	ttl = 10 * time.Second
	// wakeLimit is how long a wake-up may take.
	wakeLimit = 2 * time.Second
)

// ErrNoWakeup is returned if all calls succeed and no wake-up arrives.
var ErrNoWakeup = errors.New("the wake-up did not come: messages are refused, or get lost")

// Trial is what was tried, with the times that it took.
type Trial struct {
	// Client is the ID of the client that tried it, and Name the beginning of the names of its resources.
	Client, Name string
	// Acquire is the time of a grant without contention, and Release that of the release.
	Acquire, Release time.Duration
	// HandOff is the time from the call of a release until the wake-up of the next waiter.
	HandOff time.Duration

	prefix         string
	holder, waiter engine.Engine
	woken          chan engine.Wakeup
}

// Run acquires a lease by one engine and waits for it by another, which the release must wake up; it
// shares a semaphore, and reads a snapshot. The engines are on the same store, and may be the same.
// It returns the first error that it meets, or ErrNoWakeup, with what it has measured by then.
func Run(ctx context.Context, holder, waiter engine.Engine, prefix string) (t *Trial, err error) {
	random := strings.ToLower(rand.Text())
	t = &Trial{
		Client: "doctor" + random[:12], Name: "holdfast-doctor-" + random[12:],
		prefix: prefix, holder: holder, waiter: waiter, woken: make(chan engine.Wakeup, 16),
	}
	defer holder.Leave(t.Client)
	defer waiter.Leave(t.Client)
	listener, err := waiter.Listen(ctx, prefix, t.Client, func(w engine.Wakeup) {
		select {
		case t.woken <- w:
		default: // enough are buffered
		}
	})
	if err != nil {
		return t, err
	}
	defer listener.Close()
	err = t.handOff(ctx)
	if err == nil || errors.Is(err, ErrNoWakeup) {
		err = errors.Join(err, t.share(ctx))
	}
	return t, err
}

func (t *Trial) request(name, id string, kind engine.Kind, capacity int) engine.Request {
	return engine.Request{
		Resource: engine.Resource{Prefix: t.prefix, Name: t.Name + name}, ID: t.Client + "." + id,
		Kind: kind, Capacity: capacity, Weight: capacity, TTL: ttl, Queue: true, Reason: "holdfast doctor",
	}
}

// handOff acquires a lease and releases it to a waiter, which must receive a wake-up.
func (t *Trial) handOff(ctx context.Context) error {
	first, second := t.request("", "1", engine.KindMutex, 1), t.request("", "2", engine.KindMutex, 1)
	sent := time.Now()
	granted, err := t.holder.Acquire(ctx, first)
	t.Acquire = time.Since(sent)
	if err == nil {
		_, err = t.waiter.Acquire(ctx, second)
	}
	sent = time.Now()
	if err == nil {
		err = t.holder.Release(ctx, engine.Release{Resource: first.Resource, Held: engine.Held{ID: first.ID, Token: granted.Token}})
		t.Release = time.Since(sent)
	}
	if err == nil {
		err = t.awaitGrant(ctx, second.ID)
		t.HandOff = time.Since(sent)
	}
	if err == nil {
		_, err = t.waiter.Snapshot(ctx, first.Resource)
	}
	return errors.Join(err, t.withdraw(ctx, first, second))
}

// awaitGrant waits for the wake-up of a waiter.
func (t *Trial) awaitGrant(ctx context.Context, id string) error {
	limit := time.NewTimer(wakeLimit)
	defer limit.Stop()
	for {
		select {
		case w := <-t.woken:
			if w.Kind == engine.WakeGrant && w.ID == id {
				return nil
			}
		case <-limit.C:
			return ErrNoWakeup
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// share acquires two units of two, renews them, and returns one.
func (t *Trial) share(ctx context.Context) error {
	r := t.request("-shared", "3", engine.KindSemaphore, 2)
	granted, err := t.holder.Acquire(ctx, r)
	if err != nil {
		return err
	}
	held := engine.Held{ID: r.ID, Token: granted.Token}
	err = errors.Join(t.holder.Renew(ctx, []engine.Renewal{{Resource: r.Resource, Held: held, TTL: ttl}})...)
	if err == nil {
		err = t.holder.Resize(ctx, r.Resource, held, 1)
	}
	return errors.Join(err, t.withdraw(ctx, r))
}

func (t *Trial) withdraw(ctx context.Context, all ...engine.Request) error {
	var errs []error
	for _, r := range all {
		errs = append(errs, t.holder.Release(ctx, engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID}, Withdraw: true}))
	}
	return errors.Join(errs...)
}
