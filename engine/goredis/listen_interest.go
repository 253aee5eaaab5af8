package goredis

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// interests has the listeners of a cluster by their channel for all nodes, and passes them the
// resources that their clients wait for or hold. On one Redis it is empty.
type interests struct {
	mu      sync.Mutex
	streams map[string]*clusterListener
}

func (a *interests) add(s *clusterListener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams == nil {
		a.streams = map[string]*clusterListener{}
	}
	a.streams[s.plain] = s
}

func (a *interests) remove(s *clusterListener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[s.plain] == s {
		delete(a.streams, s.plain)
	}
}

func (a *interests) of(res engine.Resource, holderID string) *clusterListener {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.streams) == 0 {
		return nil
	}
	return a.streams[wakeChannel(res.Prefix, engine.ClientOf(holderID))]
}

// need records that a client waits for a resource or holds it. It is called again within
// life as long as that is so.
func (a *interests) need(keys script.Keys, res engine.Resource, holderID string, life time.Duration) {
	if s := a.of(res, holderID); s != nil {
		s.need(keys.Core(), life)
	}
}

// done records that a client has released a resource.
func (a *interests) done(keys script.Keys, res engine.Resource, holderID string) {
	if s := a.of(res, holderID); s != nil {
		s.done(keys.Core())
	}
}
