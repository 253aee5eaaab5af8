package goredis

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// audience knows the streams of wake-ups from a cluster, by the channel for all
// nodes, to tell them which resources matter. On one Redis it is empty.
type audience struct {
	mu      sync.Mutex
	streams map[string]*shards
}

func (a *audience) enter(s *shards) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams == nil {
		a.streams = map[string]*shards{}
	}
	a.streams[s.plain] = s
}

func (a *audience) quit(s *shards) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[s.plain] == s {
		delete(a.streams, s.plain)
	}
}

func (a *audience) of(res engine.Resource, holderID string) *shards {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.streams) == 0 {
		return nil
	}
	return a.streams[wakeChannel(res.Prefix, engine.ClientOf(holderID))]
}

// attend: a party of a client that listens waits for a resource or holds it, and
// will say so again within life.
func (a *audience) attend(keys script.Keys, res engine.Resource, holderID string, life time.Duration) {
	if s := a.of(res, holderID); s != nil {
		s.attend(keys.Core(), life)
	}
}

// dismiss: it has given the resource back.
func (a *audience) dismiss(keys script.Keys, res engine.Resource, holderID string) {
	if s := a.of(res, holderID); s != nil {
		s.dismiss(keys.Core())
	}
}
