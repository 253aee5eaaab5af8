package goredis

import (
	"sync"

	"github.com/holdfast-go/holdfast/engine"
)

// clientAt names the channel of a client.
type clientAt struct{ prefix, client string }

// live has the subscriptions to one Redis that the server has confirmed, until they are seen to end. A request
// tells the script if there is none, since the script looks only then; see docs/decisions/0139.
type live struct {
	mu        sync.Mutex
	listeners map[clientAt]*listener
}

func (l *live) add(at clientAt, s *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners == nil {
		l.listeners = map[clientAt]*listener{}
	}
	l.listeners[at] = s
}

func (l *live) remove(at clientAt, s *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners[at] == s {
		delete(l.listeners, at)
	}
}

func (l *live) has(prefix, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listeners[clientAt{prefix, engine.ClientOf(id)}] != nil
}
