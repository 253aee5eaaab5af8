package goredis

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// Timing of topics.
const (
	// topicLife is how long a resource is listened to after a client last waited
	// for it or gave it back: the next wait may come soon.
	topicLife = time.Minute
	// topicSweep is how often topics nobody needs are looked for.
	topicSweep = 15 * time.Second
	// leastEars is how many masters a stream listens to, if there are as many:
	// one may be away.
	leastEars = 2
	// openTries is how many masters a new stream tries before it says that none
	// can be reached.
	openTries = 4
)

// shards is the stream of wake-ups of one client from a cluster. Each of its
// ears is a connection to one master; it hears what is told to all nodes, and
// what is told to the shard about the resources there that the client waits for
// or holds, its topics. Nothing depends on how quickly a topic finds its ear:
// where nobody listens to the shard, the scripts tell all nodes.
type shards struct {
	e       *Engine
	plain   string // the channel for all nodes
	client  string
	deliver func(engine.Wakeup)
	cluster *redis.ClusterClient
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup // the manager and the ears
	todo    chan struct{}  // of one: there is something for the manager
	live    chan error     // how the first ear went, once

	mu      sync.Mutex
	ears    map[string]*ear   // by address of the master
	topics  map[string]*topic // by core of the resource
	deaf    bool              // the server knows no sharded channels, or refuses them
	missed  bool              // wake-ups may have been lost since the latest Resync
	trouble int               // failures in a row
	told    []telling         // the latest messages to all nodes
}

// telling is a message that an ear heard.
type telling struct {
	text string
	by   *ear
}

// manyTold is how many messages are kept to know those that several ears hear.
const manyTold = 64

// news tells whether no other ear has heard a message to all nodes. They hear it
// at nearly the same time; one that comes late is only another hint.
func (s *shards) news(e *ear, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.told, func(t telling) bool { return t.text == text && t.by != e }); i >= 0 {
		return false
	}
	if len(s.told) == manyTold {
		s.told = slices.Delete(s.told, 0, manyTold/2)
	}
	s.told = append(s.told, telling{text, e})
	return true
}

// topic is a resource of interest.
type topic struct {
	until time.Time
	ear   *ear // who was told to listen; nil: nobody yet
	heard bool // the server confirmed it
	lost  bool // it was heard once, and then not any more
}

func (e *Engine) listenShards(cluster *redis.ClusterClient, prefix, client string, deliver func(engine.Wakeup)) *shards {
	s := &shards{
		e: e, plain: wakeChannel(prefix, client), client: client, deliver: deliver, cluster: cluster,
		todo: make(chan struct{}, 1), live: make(chan error, 1),
		ears: map[string]*ear{}, topics: map[string]*topic{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	e.audience.enter(s)
	s.work.Go(s.manage)
	return s
}

func (s *shards) opened() <-chan error { return s.live }

// Close ends the stream; it may be called more than once.
func (s *shards) Close() error {
	s.cancel()
	s.e.audience.quit(s)
	s.mu.Lock()
	for _, e := range s.ears {
		e.close()
	}
	s.mu.Unlock()
	s.work.Wait()
	return nil
}

// attend makes sure that wake-ups about a resource come by its shard, for so
// long and a while.
func (s *shards) attend(core string, life time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf {
		return
	}
	t := s.topics[core]
	if t == nil {
		t = &topic{}
		s.topics[core] = t
		s.poke()
	}
	if until := time.Now().Add(life + topicLife); until.After(t.until) {
		t.until = until
	}
}

// dismiss says that a resource was given back.
func (s *shards) dismiss(core string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[core]; t != nil {
		t.until = time.Now().Add(topicLife)
	}
}

// poke wakes the manager.
func (s *shards) poke() {
	select {
	case s.todo <- struct{}{}:
	default:
	}
}

// manage finds an ear for every topic, again and again.
func (s *shards) manage() {
	for s.ctx.Err() == nil {
		s.settle()
		t := time.NewTimer(topicSweep)
		select {
		case <-s.todo:
		case <-t.C:
			s.sweep()
		case <-s.ctx.Done():
		}
		t.Stop()
		s.rest()
	}
}

// rest pauses after failures: a node that is away costs a try each time.
func (s *shards) rest() {
	s.mu.Lock()
	trouble := s.trouble
	s.mu.Unlock()
	if trouble == 0 {
		return
	}
	t := time.NewTimer(min(minPause<<min(trouble-1, 10), maxPause))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// settle gives every topic without an ear to the master that has its slot, and
// sees that enough ears hear what all nodes are told.
func (s *shards) settle() {
	s.mu.Lock()
	var homeless []string
	for core, t := range s.topics {
		if t.ear == nil && !s.deaf {
			homeless = append(homeless, core)
		}
	}
	few, trouble := leastEars-len(s.ears), s.trouble
	s.mu.Unlock()
	if trouble > 0 {
		s.cluster.ReloadState(s.ctx) // in the background, and not often
	}
	for range 2 * max(0, few) { // any masters will do; the last one tried may be away
		s.place(strconv.Itoa(rand.Int()))
	}
	for _, core := range homeless {
		s.place(core)
	}
}

// place makes sure that there is an ear at the master of a key, and gives it the
// topic of that name, if there is one.
func (s *shards) place(key string) {
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
	e := s.ears[addr]
	if e == nil {
		e = newEar(s, addr, node)
		s.ears[addr] = e
		s.work.Go(e.run)
	}
	t := s.topics[key]
	if t != nil && t.ear == nil {
		t.ear, t.heard = e, false
	} else {
		t = nil
	}
	ready := e.ready
	s.mu.Unlock()
	if t != nil && ready { // else the ear does it when it is
		e.subscribe(shardChannel(key, s.client))
	}
}

// failed counts a failure and makes the manager try again. The mutex is held.
func (s *shards) failed(err error) {
	s.trouble++
	if s.trouble == openTries || isDenied(s.ctx, err) {
		select {
		case s.live <- err: // of interest if nothing went well before
		default:
		}
	}
	s.poke()
}

// sweep drops topics that nobody needs any more.
func (s *shards) sweep() {
	now := time.Now()
	s.mu.Lock()
	drop := map[string]*ear{}
	for core, t := range s.topics {
		if now.After(t.until) {
			delete(s.topics, core)
			drop[core] = t.ear
		}
	}
	s.mu.Unlock()
	for core, e := range drop {
		if e != nil {
			e.unsubscribe(shardChannel(core, s.client))
		}
	}
}

// settled tells listeners to look again once all is heard that was heard before.
// It returns whether to deliver a Resync. The mutex is held.
func (s *shards) settled() bool {
	if !s.missed {
		return false
	}
	heard := false
	for _, e := range s.ears {
		heard = heard || e.ready
	}
	for _, t := range s.topics {
		heard = heard && (t.heard || !t.lost || s.deaf)
	}
	s.missed = s.missed && !heard
	return heard
}

// resync is deliver for a Resync, if it is due.
func (s *shards) resync() {
	s.mu.Lock()
	due := s.settled()
	s.mu.Unlock()
	if due {
		s.deliver(engine.Wakeup{Kind: engine.Resync})
	}
}
