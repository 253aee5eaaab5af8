package goredis

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscription is one connection of a clusterListener, to one master. It ends with that
// connection: go-redis itself would resubscribe the sharded channels of several slots in one
// command, at the master of the first.
type subscription struct {
	s      *clusterListener
	addr   string
	pubsub *redis.PubSub
	socket *socket
	ctx    context.Context
	cancel context.CancelFunc // ends a connection that is being made

	// Guarded by the mutex of the clusterListener.
	ready bool                 // it is confirmed
	asked map[string]*interest // its interests without a confirmation
	live  map[string]*interest // those with one
}

func newSubscription(s *clusterListener, addr string, node *redis.Client) *subscription {
	e := &subscription{s: s, addr: addr, socket: &socket{once: true}, asked: map[string]*interest{}, live: map[string]*interest{}}
	e.ctx, e.cancel = context.WithCancel(context.WithValue(s.ctx, socketKey{}, e.socket))
	e.pubsub = node.Subscribe(e.ctx)
	return e
}

func (e *subscription) close() {
	e.cancel()
	e.socket.close()
	_ = e.pubsub.Close() // the second time it returns an error
}

// run receives until the connection breaks.
func (e *subscription) run() {
	err := e.open()
	if err == nil {
		err = e.receive()
	}
	e.close()
	e.s.subscriptionEnded(e, err)
}

// open subscribes to the channel for all nodes, then to the interests that were assigned
// meanwhile.
func (e *subscription) open() error {
	e.s.passed(e)
	if err := e.pubsub.Subscribe(e.ctx, e.s.plain); err != nil {
		return err
	}
	if err := confirmed(e.ctx, e.pubsub); err != nil {
		return err
	}
	for _, core := range e.s.begin(e) {
		e.subscribe(shardChannel(core, e.s.client))
	}
	return nil
}

// subscribe subscribes to one channel: one command cannot have channels of several slots. The
// next receive returns an error, if there is one.
func (e *subscription) subscribe(channel string) { _ = e.pubsub.SSubscribe(e.ctx, channel) }

func (e *subscription) unsubscribe(channel string) { _ = e.pubsub.SUnsubscribe(e.ctx, channel) }

// receive delivers messages until the connection breaks.
func (e *subscription) receive() error {
	for pinged := false; ; {
		msg, err := e.pubsub.ReceiveTimeout(e.ctx, quiet)
		switch {
		case err == nil:
			pinged = false
			e.handle(msg)
		case isTimeout(err) && !pinged && e.ctx.Err() == nil:
			pinged = true
			e.s.e.follow(e.ctx)
			_ = e.pubsub.Ping(e.ctx) // an error shows in the next receive
		case isAnswer(err) && e.ctx.Err() == nil:
			e.s.refused(e, err)
		default:
			return err
		}
	}
}

func (e *subscription) handle(msg any) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		core := strings.TrimSuffix(msg.Channel, shardChannel("", e.s.client))
		switch msg.Kind {
		case "ssubscribe":
			e.s.confirmed(e, core)
		case "sunsubscribe":
			e.s.unconfirmed(e, core)
		}
	case *redis.Message:
		if msg.Channel != e.s.plain || e.s.isNew(e, msg.Payload) {
			e.s.deliver(wakeupOf(msg.Payload))
		}
	}
}

// begin makes a subscription ready and returns its interests.
func (s *clusterListener) begin(e *subscription) []string {
	s.mu.Lock()
	e.ready = true
	s.failures = 0
	s.back()
	select {
	case s.live <- nil:
	default:
	}
	mine := slices.Collect(maps.Keys(e.asked))
	s.mu.Unlock()
	s.resync()
	return mine
}

// subscriptionEnded removes a subscription; its interests need another.
func (s *clusterListener) subscriptionEnded(e *subscription, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscriptions[e.addr] == e {
		delete(s.subscriptions, e.addr)
	}
	s.missed = s.missed || e.ready
	e.ready = false
	s.recent = nil // the others receive the next one with the same text
	for _, all := range []map[string]*interest{e.asked, e.live} {
		for _, t := range all {
			s.assign(t, nil)
		}
	}
	if s.ctx.Err() == nil {
		s.failed(err)
	}
}

// confirmed records that the server has confirmed an interest.
func (s *clusterListener) confirmed(e *subscription, core string) {
	s.mu.Lock()
	t := s.interests[core]
	if t != nil && t.on == e {
		s.confirm(t)
		s.failures = 0
	}
	s.mu.Unlock()
	s.resync()
}

// unconfirmed records that the server has ended an interest, since the slot has moved.
func (s *clusterListener) unconfirmed(e *subscription, core string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.interests[core]
	if t == nil || t.on != e {
		return // sweep has ended it
	}
	s.assign(t, nil)
	s.missed = true
	s.failures = max(s.failures, 1) // so that the slots are reloaded
	s.wakeManager()
}

// refused handles an error in place of a confirmation. The error does not name the channel, so
// all channels without a confirmation are subscribed again, which is harmless.
func (s *clusterListener) refused(e *subscription, err error) {
	defer s.resync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if isDenied(s.ctx, err) { // Redis before 7, or not allowed: scripts publish to all nodes
		s.plainUntil = time.Now().Add(plainLife)
		for _, t := range s.interests {
			if !t.confirmed {
				s.remove(t)
			}
		}
		return
	}
	for _, t := range e.asked {
		s.assign(t, nil)
	}
	s.failed(err)
}
