package quorum

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// maxTokens is the maximum number of resources of which tokens are kept.
const maxTokens = 4096

// tokens keeps the highest token seen of each resource, so that the next ballot is above it. If a
// token was discarded, the next Acquire may need one ballot more.
type tokens struct {
	mu   sync.Mutex
	last map[engine.Resource]uint64
}

// next returns a token to propose: above the highest seen, and at least the time in
// microseconds.
func (k *tokens) next(r engine.Resource) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(k.last[r]+1, clockToken())
}

// observe records a token that was granted or is reserved. It discards tokens below the clock,
// which next does not need.
func (k *tokens) observe(r engine.Resource, last uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last = max(last, k.last[r])
	if last < clockToken() {
		delete(k.last, r)
		return
	}
	if len(k.last) >= maxTokens {
		clear(k.last)
	}
	k.last[r] = last
}

// forget makes the tokens of a resource follow the clock of this process again.
func (k *tokens) forget(r engine.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, r)
}

func clockToken() uint64 { return uint64(max(1, time.Now().UnixMicro())) }
