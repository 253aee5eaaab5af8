package goredis

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// Timing of interests.
const (
	// interestLife is how long a resource's channel stays subscribed after a client last
	// waited for the resource or released it, since the next wait may follow soon.
	interestLife = time.Minute
	// interestSweep is how often interests that have ended are removed.
	interestSweep = 15 * time.Second
	// minSubscriptions is how many masters a listener subscribes at, if there are as many,
	// since one may be unavailable.
	minSubscriptions = 2
	// randomKeys is how many keys are tried to find so many masters: most of the slots can be at one.
	randomKeys = 32
	// resyncWait is how long a Resync waits for subscriptions that are still missing when others are
	// back: one for all is cheaper, but a master may be away for long.
	resyncWait = time.Second
	// plainLife is for how long a refused sharded channel keeps others from being tried: the right
	// may be given, or the server replaced.
	plainLife = time.Minute
	// openTries is how many masters a new stream tries before it reports a failure.
	openTries = 4
)

// clusterListener receives the wake-ups of one client from a cluster. Each of its
// subscriptions is a connection to one master. It receives the messages that are published to
// all nodes, and those that are published to the shard about the client's interests there:
// resources that it waits for or holds. Nothing depends on how quickly an interest is
// subscribed: if a shard channel has no subscriber, the scripts publish to all nodes.
type clusterListener struct {
	e       *Engine
	plain   string // the channel for all nodes
	client  string
	deliver func(engine.Wakeup)
	cluster *redis.ClusterClient
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup // the manager and the subscriptions
	todo    chan struct{}  // of capacity 1; a value if the manager has work
	live    chan error     // the outcome of the first subscription, once

	mu            sync.Mutex
	subscriptions map[string]*subscription // by address of the master
	interests     map[string]*interest     // by core of the resource
	homeless      map[string]*interest     // those of them without a subscription
	lost          int                      // how many of them are lost
	plainUntil    time.Time                // until then no sharded channel is tried
	missed        bool                     // wake-ups may have been lost since the latest Resync
	partly        time.Time                // when a Resync is due though interests are lost; zero: not known
	failures      int                      // failures in a row
	recent        []broadcast              // the latest messages to all nodes
}

// broadcast is a message to all nodes, and the subscriptions that have received it.
type broadcast struct {
	text string
	by   []*subscription
}

// maxRecent is how many messages are kept to recognise those that arrive on several
// subscriptions.
const maxRecent = 64

// isNew reports whether no other subscription has received this message to all nodes. They
// receive it at nearly the same time. A copy that is too late to be recognised is harmless. The
// same text may be published again, so each subscription's copy is recognised once.
func (s *clusterListener) isNew(e *subscription, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.recent {
		if t := &s.recent[i]; t.text == text && !slices.Contains(t.by, e) {
			t.by = append(t.by, e)
			return false
		}
	}
	if len(s.recent) == maxRecent {
		s.recent = slices.Delete(s.recent, 0, maxRecent/2)
	}
	s.recent = append(s.recent, broadcast{text, []*subscription{e}})
	return true
}

// passed makes a subscription that has yet to subscribe count as one that has received the messages so far: it receives only later
// ones. Its copies of those that come while it subscribes are still recognised.
func (s *clusterListener) passed(e *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.recent {
		s.recent[i].by = append(s.recent[i].by, e)
	}
}

func (e *Engine) listenShards(cluster *redis.ClusterClient, prefix, client string, deliver func(engine.Wakeup)) *clusterListener {
	s := &clusterListener{
		e: e, plain: wakeChannel(prefix, client), client: client, deliver: deliver, cluster: cluster,
		todo: make(chan struct{}, 1), live: make(chan error, 1),
		subscriptions: map[string]*subscription{}, interests: map[string]*interest{}, homeless: map[string]*interest{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	e.interests.add(s)
	s.work.Go(s.manage)
	return s
}

func (s *clusterListener) opened() <-chan error { return s.live }

// Close ends the stream; it may be called more than once.
func (s *clusterListener) Close() error {
	s.cancel()
	s.e.interests.remove(s)
	s.mu.Lock()
	for _, e := range s.subscriptions {
		e.close()
	}
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// need subscribes to the shard channel of a resource, for life and interestLife.
func (s *clusterListener) need(core string, life time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.interests[core]
	if t == nil {
		if time.Now().Before(s.plainUntil) {
			return
		}
		t = s.newInterest(core)
		s.wakeManager()
	}
	if until := time.Now().Add(life + interestLife); until.After(t.until) {
		t.until = until
	}
}

// done records that a resource was released.
func (s *clusterListener) done(core string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.interests[core]; t != nil {
		t.until = time.Now().Add(interestLife)
	}
}

// wakeManager makes the manager run.
func (s *clusterListener) wakeManager() {
	select {
	case s.todo <- struct{}{}:
	default:
	}
}

// manage keeps a subscription for every interest.
func (s *clusterListener) manage() {
	sweeps := time.NewTicker(interestSweep) // not a timer of each turn: there may always be work
	defer sweeps.Stop()
	for s.ctx.Err() == nil {
		s.settle()
		s.resync()
		select {
		case <-s.todo:
		case <-sweeps.C:
			s.sweep()
		case <-s.ctx.Done():
		}
		s.pause()
	}
}

// pause waits after failures, longer after each: an attempt on an unavailable node costs
// time.
func (s *clusterListener) pause() {
	s.mu.Lock()
	trouble := s.failures
	s.mu.Unlock()
	if trouble > 0 {
		sleep(s.ctx, min(minPause<<min(trouble-1, 10), maxPause))
	}
}

// settle assigns every interest without a subscription to the master of its slot, and
// keeps minSubscriptions for what is published to all nodes.
func (s *clusterListener) settle() {
	s.mu.Lock()
	homeless := slices.Collect(maps.Keys(s.homeless))
	trouble := s.failures
	s.mu.Unlock()
	if trouble > 0 {
		s.cluster.ReloadState(s.ctx) // in the background, and rate-limited
	}
	for range randomKeys {
		if s.hasEnough() {
			break
		}
		s.place(strconv.Itoa(rand.Int()))
	}
	for _, core := range homeless {
		s.place(core)
	}
}

func (s *clusterListener) hasEnough() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.subscriptions) >= minSubscriptions
}

// place makes sure that there is a subscription at the master of a key, and assigns the
// interest of that name to it, if there is one.
func (s *clusterListener) place(key string) {
	node, err := bounded(s.e, s.ctx, func() (*redis.Client, error) { return s.cluster.MasterForKey(s.ctx, key) })
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	if err != nil {
		s.failed(err)
		s.mu.Unlock()
		return
	}
	addr := node.Options().Addr
	e := s.subscriptions[addr]
	if e == nil {
		e = newSubscription(s, addr, node)
		s.subscriptions[addr] = e
		s.work.Go(e.run)
	}
	t := s.interests[key]
	if t != nil && t.on == nil {
		s.assign(t, e)
	} else {
		t = nil
	}
	ready := e.ready
	s.mu.Unlock()
	if t != nil && ready { // otherwise the subscription subscribes once it is ready
		e.subscribe(shardChannel(key, s.client))
	}
}

// failed counts a failure and makes the manager try again. The mutex is held.
func (s *clusterListener) failed(err error) {
	s.failures++
	if s.failures == openTries || isDenied(s.ctx, err) {
		select {
		case s.live <- err: // received only if no attempt has succeeded before
		default:
		}
	}
	s.wakeManager()
}

// sweep removes interests that have ended.
func (s *clusterListener) sweep() {
	now := time.Now()
	s.mu.Lock()
	drop := map[string]*subscription{}
	for core, t := range s.interests {
		if now.After(t.until) {
			s.remove(t)
			if t.on != nil && t.on.ready { // otherwise it is not subscribed, and may be connecting for long
				drop[core] = t.on
			}
		}
	}
	s.mu.Unlock()
	for core, e := range drop {
		e.unsubscribe(shardChannel(core, s.client))
	}
}

// settled reports whether a Resync is due: wake-ups may have been lost, and all interests that
// were confirmed before are confirmed again, or some of them resyncWait ago. The mutex is held.
func (s *clusterListener) settled() bool {
	ready := false
	for _, e := range s.subscriptions {
		ready = ready || e.ready
	}
	if !s.missed || !ready || s.lost > 0 && (s.partly.IsZero() || time.Now().Before(s.partly)) {
		return false
	}
	s.missed, s.partly = s.lost > 0, time.Time{}
	return true
}

// back records that a subscription or a lost interest is confirmed. The mutex is held.
func (s *clusterListener) back() {
	if s.missed && s.lost > 0 && s.partly.IsZero() {
		s.partly = time.Now().Add(resyncWait)
		time.AfterFunc(resyncWait, s.wakeManager)
	}
}

// resync delivers a Resync if it is due.
func (s *clusterListener) resync() {
	s.mu.Lock()
	due := s.settled()
	s.mu.Unlock()
	if due {
		s.deliver(engine.Wakeup{Kind: engine.Resync})
	}
}
