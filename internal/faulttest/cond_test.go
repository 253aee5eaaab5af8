package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// room is how many items the buffer takes.
const bufferSize = 4

// buffer is a list in Redis that a mutex protects, with its conditions.
type buffer struct {
	rdb      *redis.Client
	key      string
	mutex    *holdfast.Mutex
	notEmpty *holdfast.Cond
	notFull  *holdfast.Cond
}

func newBuffer(c *holdfast.Client, rdb *redis.Client, tk task) *buffer {
	m := c.Mutex(tk.Resource, holdfast.WithTTL(tk.TTL))
	return &buffer{rdb, tk.Counter, m, m.Cond("not empty"), m.Cond("not full")}
}

// when locks the mutex when ready holds for the number of items, and runs fn. It retries
// what fails because Redis is down.
func (b *buffer) when(ctx context.Context, ready func(n int64) bool, cond *holdfast.Cond, fn func() error) error {
	for ctx.Err() == nil {
		l, err := b.mutex.Lock(ctx)
		for err == nil {
			var n int64
			if n, err = b.rdb.LLen(ctx, b.key).Result(); err != nil {
				_ = l.Release(context.Background()) // Redis is down
				break
			}
			if ready(n) {
				err = fn()
				_ = l.Release(context.Background())
				return err
			}
			l, err = cond.Wait(ctx, l)
		}
		if unexplained(err) {
			return err
		}
		pause(ctx, 10*time.Millisecond)
	}
	return ctx.Err()
}

// unexplained reports whether no fault explains an error.
func unexplained(err error) bool {
	return errors.Is(err, holdfast.ErrMismatch) || errors.Is(err, holdfast.ErrNotHeld) ||
		errors.Is(err, holdfast.ErrDeadlock) || errors.Is(err, holdfast.ErrInvalid) && !grantsTooLate(err)
}

// grantsTooLate reports whether grants came too late for a TTL that is short, as they do
// on a machine that stalls.
func grantsTooLate(err error) bool {
	return errors.Is(err, holdfast.ErrInvalid) && strings.Contains(err.Error(), "is too short for this store")
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// retry repeats what Redis may not have executed.
func retry(ctx context.Context, fn func(context.Context) error) {
	for fn(ctx) != nil && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
}

// consume is the role of a consumer: it prints each item that it took.
func (w *worker) consume() error {
	ctx, stop := w.untilInputEnds()
	defer stop()
	b := newBuffer(w.c, w.rdb, w.task)
	fmt.Println("ready")
	for ctx.Err() == nil {
		item := ""
		err := b.when(ctx, func(n int64) bool { return n > 0 }, b.notEmpty, func() (err error) {
			item, err = w.rdb.LPop(ctx, b.key).Result()
			return err
		})
		switch {
		case unexplained(err):
			return err
		case err != nil:
			continue // the end, or Redis went down with the item or before
		}
		fmt.Println("took", item)
		retry(ctx, b.notFull.Signal)
	}
	return nil
}

// consumers are worker processes that wait for items most of the time.
type consumers struct {
	w    *fixture
	task task
	all  []*process
	took int
}

func (c *consumers) join() {
	p := c.w.start("consume", c.task)
	p.expect("ready")
	c.all = append(c.all, p)
}

// drain counts what the processes have taken.
func (c *consumers) drain() {
	for _, p := range c.all {
		p.drain(c.count)
	}
}

func (c *consumers) count(line string) {
	if !strings.HasPrefix(line, "took ") {
		c.w.t.Fatalf("a worker wrote %q", line)
	}
	c.took++
}

func (c *consumers) kill(i int) {
	p := c.all[i]
	p.kill()
	for line := range p.lines {
		c.count(line)
	}
	c.all = slices.Delete(c.all, i, i+1)
}

// producer puts one item after the other until ctx ends.
type producer struct {
	items   int
	slowest time.Duration
	err     error
}

func (p *producer) run(ctx context.Context, b *buffer) {
	for ctx.Err() == nil && p.err == nil {
		start := time.Now()
		err := b.when(ctx, func(n int64) bool { return n < bufferSize }, b.notFull, func() error {
			err := b.rdb.RPush(ctx, b.key, p.items).Err()
			return errors.Join(err, b.rdb.Expire(context.WithoutCancel(ctx), b.key, time.Minute).Err())
		})
		switch {
		case err == nil:
			p.items++
			retry(ctx, b.notEmpty.Signal)
			p.slowest = max(p.slowest, time.Since(start))
		case unexplained(err):
			p.err = err
		}
		pause(ctx, rand.N(20*time.Millisecond))
	}
}

// Consumers in processes of their own are killed and stopped, mostly while they
// wait, and Redis is killed and started again with its data, while a producer puts one item
// after the other into a bounded buffer. It never stands still: what is put is
// taken soon, and at the end nothing is left.
func TestCondUnderFaults(t *testing.T) {
	w := newFixture(t, keepingData())
	length := primitivetest.Soak(t, 8*time.Second)
	c := &consumers{w: w, task: task{Resource: "buffer", TTL: 600 * time.Millisecond, Counter: "items"}}
	for range 4 {
		c.join()
	}
	b := newBuffer(w.client(), w.redis.Client(), c.task)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	made := make(chan producer, 1)
	go func() {
		var p producer
		p.run(ctx, b)
		made <- p
	}()
	var f faults
	goesOn := w.whileLasting(length, func() bool { return f.all() && c.took >= int(length/time.Second) })
	for n := 0; goesOn(); n++ {
		w.elapse(rand.N(800 * time.Millisecond))
		c.drain()
		switch n % 5 {
		case 2:
			w.restart(rand.N(700 * time.Millisecond))
			f.restarts++
		case 0, 3: // with a signal on its way, or the mutex, or neither
			w.stop(c.all[rand.N(len(c.all))], rand.N(3*c.task.TTL))
			f.stops++
		default:
			c.kill(rand.N(len(c.all)))
			c.join()
			f.kills++
		}
	}
	stop()
	p := <-made
	if p.err != nil {
		t.Error(p.err)
	}
	rest := c.rest(b)
	t.Logf("%d items put, the slowest in %v; %d known to be taken; %v in %v; the rest was taken in %v",
		p.items, p.slowest, c.took, f, length, rest)
	if p.slowest > holdfast.CondTimeout+waitTimeout {
		t.Errorf("the producer hung for %v", p.slowest)
	}
}

// rest waits until the buffer is empty, ends all consumers, and returns how long
// the buffer took.
func (c *consumers) rest(b *buffer) time.Duration {
	c.w.t.Helper()
	start, left := time.Now(), int64(1)
	retry(c.w.t.Context(), b.notEmpty.Signal) // that of the last item may have been cut short
	for left > 0 {
		c.drain()
		n, err := b.rdb.LLen(c.w.t.Context(), b.key).Result()
		if err == nil {
			left = n
		}
		if time.Since(start) > holdfast.CondTimeout+waitTimeout {
			c.w.t.Fatalf("%d items are left: the consumers hang", left)
		}
		c.w.elapse(10 * time.Millisecond)
	}
	took := time.Since(start)
	for _, p := range c.all {
		_ = p.in.Close() // all at once
	}
	for _, p := range c.all {
		p.finish()
		for line := range p.lines {
			c.count(line)
		}
	}
	return took
}
