package goredis

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ear is one connection of shards, to one master. It lives as long as that
// connection: what go-redis does by itself when one breaks is wrong for sharded
// channels of several slots, which it subscribes in one command and at the
// master of the first.
type ear struct {
	s      *shards
	addr   string
	pubsub *redis.PubSub
	socket *socket
	ctx    context.Context

	ready bool // it hears; guarded by the mutex of shards
}

func newEar(s *shards, addr string, node *redis.Client) *ear {
	e := &ear{s: s, addr: addr, socket: &socket{once: true}}
	e.ctx = context.WithValue(s.ctx, socketKey{}, e.socket)
	e.pubsub = node.Subscribe(e.ctx)
	return e
}

func (e *ear) close() {
	e.socket.close()
	_ = e.pubsub.Close() // the second time it says that it is closed
}

// run hears until the connection breaks.
func (e *ear) run() {
	err := e.open()
	if err == nil {
		err = e.hear()
	}
	e.close()
	e.s.gone(e, err)
}

// open subscribes to what all nodes are told, then to the topics it was given
// meanwhile.
func (e *ear) open() error {
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

// subscribe asks for one channel: those of several slots cannot be asked for in
// one command. An error shows in the next receive.
func (e *ear) subscribe(channel string) { _ = e.pubsub.SSubscribe(e.ctx, channel) }

func (e *ear) unsubscribe(channel string) { _ = e.pubsub.SUnsubscribe(e.ctx, channel) }

// hear delivers what comes until the connection breaks.
func (e *ear) hear() error {
	for asked := false; ; {
		msg, err := e.pubsub.ReceiveTimeout(e.ctx, quiet)
		switch {
		case err == nil:
			asked = false
			e.handle(msg)
		case isTimeout(err) && !asked && e.ctx.Err() == nil:
			asked = true
			e.s.e.follow(e.ctx)
			_ = e.pubsub.Ping(e.ctx) // an error shows in the next receive
		case isAnswer(err) && e.ctx.Err() == nil:
			e.s.refused(e, err)
		default:
			return err
		}
	}
}

func (e *ear) handle(msg any) {
	switch msg := msg.(type) {
	case *redis.Subscription:
		core := strings.TrimSuffix(msg.Channel, shardChannel("", e.s.client))
		switch msg.Kind {
		case "ssubscribe":
			e.s.heard(e, core)
		case "sunsubscribe":
			e.s.unheard(e, core)
		}
	case *redis.Message:
		if msg.Channel != e.s.plain || e.s.news(e, msg.Payload) {
			e.s.deliver(wakeupOf(msg.Payload))
		}
	}
}

// begin makes an ear ready and returns its topics.
func (s *shards) begin(e *ear) []string {
	s.mu.Lock()
	e.ready = true
	s.trouble = 0
	select {
	case s.live <- nil:
	default:
	}
	var mine []string
	for core, t := range s.topics {
		if t.ear == e {
			mine = append(mine, core)
		}
	}
	s.mu.Unlock()
	s.resync()
	return mine
}

// gone takes an ear out; its topics need another.
func (s *shards) gone(e *ear, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ears[e.addr] == e {
		delete(s.ears, e.addr)
	}
	s.missed = s.missed || e.ready
	e.ready = false
	for _, t := range s.topics {
		if t.ear == e {
			t.lost, t.ear, t.heard = t.lost || t.heard, nil, false
		}
	}
	if s.ctx.Err() == nil {
		s.failed(err)
	}
}

// heard notes that the server has confirmed a topic.
func (s *shards) heard(e *ear, core string) {
	s.mu.Lock()
	t := s.topics[core]
	if t != nil && t.ear == e {
		t.heard, s.trouble = true, 0
	}
	s.mu.Unlock()
	s.resync()
}

// unheard notes that the server has ended a topic, since the slot has moved.
func (s *shards) unheard(e *ear, core string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[core]
	if t == nil || t.ear != e {
		return // asked for by sweep
	}
	t.lost, t.ear, t.heard = true, nil, false
	s.missed = true
	s.trouble = max(s.trouble, 1) // who has the slot must be looked up
	s.poke()
}

// refused notes an error in place of a confirmation. It does not say for which
// topic, so all that wait for one are asked for again: that does no harm.
func (s *shards) refused(e *ear, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isDenied(s.ctx, err) { // Redis before 7, or no right to: all nodes are told
		s.deaf = true
		clear(s.topics)
		return
	}
	for _, t := range s.topics {
		if t.ear == e && !t.heard {
			t.ear = nil
		}
	}
	s.failed(err)
}
