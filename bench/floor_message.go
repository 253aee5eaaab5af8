package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A line is a list of callers, of which the first has its turn. join appends a caller and returns how many there are; if the first
// keeps its turn until another wants it, join sends it a message that begins with w. leave removes the first and sends the
// next one a message that begins with t. The channel of a caller is that of its client, the part of its name before the dot.
const (
	joinLine = `local n = redis.call('RPUSH', KEYS[1], ARGV[1])
if n > 1 and ARGV[2] == '1' then
  local first = redis.call('LINDEX', KEYS[1], 0)
  redis.call('PUBLISH', string.match(first, '^[^.]+'), 'w' .. first)
end
return n`
	leaveLine = `redis.call('LPOP', KEYS[1])
local first = redis.call('LINDEX', KEYS[1], 0)
if first then redis.call('PUBLISH', string.match(first, '^[^.]+'), 't' .. first) end
return 1`
)

const (
	line     = "a list and PUBLISH"
	keptLine = "a list and PUBLISH, kept until wanted"
)

// messageFloor is the least that a queue costs whose callers wait for a message: a script to join, one to leave, and a message of
// the second. It is not a lock: if the first caller dies, nobody has a turn any more. keeps: a caller leaves when another wants
// its turn, which is a message more.
func messageFloor(name string, keeps bool) contender {
	return contender{name: name, role: floor, sends: evalsha, open: func(s settings) (client, error) {
		p := &lineClient{
			rdb: s.client(), join: redis.NewScript(joinLine), remove: redis.NewScript(leaveLine), keeps: keeps, name: rand.Text(), locks: make(map[string]*lineLock),
		}
		p.messages = p.rdb.Subscribe(context.Background(), p.name)
		if _, err := p.messages.Receive(context.Background()); err != nil {
			return nil, err
		}
		p.reading.Go(p.read)
		return p, nil
	}}
}

type lineClient struct {
	rdb      *redis.Client
	join     *redis.Script
	remove   *redis.Script
	keeps    bool
	name     string // of its channel
	messages *redis.PubSub
	reading  sync.WaitGroup

	mu    sync.Mutex
	locks map[string]*lineLock // by the name of the caller
}

func (p *lineClient) lock(resource string) lock {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &lineLock{p: p, name: fmt.Sprintf("%s.%d", p.name, len(p.locks)), keys: []string{resource}, turn: make(chan struct{}, 1)}
	p.locks[l.name] = l
	return l
}

// close ends the client when its messages have ended.
func (p *lineClient) close() {
	_ = p.messages.Close()
	p.reading.Wait()
	_ = p.rdb.Close()
}

// read passes messages to callers.
func (p *lineClient) read() {
	for {
		m, err := p.messages.ReceiveMessage(context.Background())
		if err != nil {
			return
		}
		turn := m.Payload[0] == 't'
		p.mu.Lock()
		l := p.locks[m.Payload[1:]]
		kept := l.kept
		if !turn {
			l.kept, l.wanted = false, !kept
		}
		p.mu.Unlock()
		switch {
		case turn:
			l.turn <- struct{}{}
		case kept:
			_ = l.leave(context.Background()) // the one that waits sees an error
		}
	}
}

type lineLock struct {
	p    *lineClient
	name string
	keys []string
	turn chan struct{}

	kept   bool // the turn, after Unlock; guarded by p.mu
	wanted bool // by another caller, before Unlock; guarded by p.mu
}

func (l *lineLock) Lock(ctx context.Context) error {
	if l.again() {
		return nil
	}
	n, err := l.p.join.Run(ctx, l.p.rdb, l.keys, l.name, l.p.keeps).Int()
	if err != nil || n == 1 {
		return err
	}
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again reports whether the caller has kept its turn.
func (l *lineLock) again() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	kept := l.kept
	l.kept = false
	return kept
}

func (l *lineLock) Unlock(ctx context.Context) error {
	l.p.mu.Lock()
	l.kept = l.p.keeps && !l.wanted
	l.wanted = false
	kept := l.kept
	l.p.mu.Unlock()
	if kept {
		return nil
	}
	return l.leave(ctx)
}

func (l *lineLock) leave(ctx context.Context) error {
	return l.p.remove.Run(ctx, l.p.rdb, l.keys).Err()
}
